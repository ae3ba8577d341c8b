"""The Debian package: what is in it works from where it is unpacked."""

import os
import re
import subprocess

import pytest

from libdata import blob
from libmount import REPO

pytestmark = pytest.mark.release

FILES = {
    "usr/bin/cframe",
    "usr/bin/cframefs",
    "usr/share/bash-completion/completions/cframe",
    "usr/share/bash-completion/completions/cframefs",
    "usr/share/doc/cframefs/copyright",
    "usr/share/fish/vendor_completions.d/cframe.fish",
    "usr/share/fish/vendor_completions.d/cframefs.fish",
    "usr/share/man/man1/cframe.1.gz",
    "usr/share/man/man1/cframefs.1.gz",
    "usr/share/man/man8/cframefs.8.gz",
    "usr/share/zsh/vendor-completions/_cframe",
}


def test_a_package_is_built_and_works(mount, tool, tmp_path):
    tool("dpkg-shlibdeps")  # on Debian alone
    env = {**os.environ, "CFLAGS": "-O0"}  # compiles in a third of the time
    said = subprocess.run(
        [REPO / "tools/package", tmp_path], env=env, capture_output=True, text=True, check=True
    )
    assert "should already be installed" not in said.stderr
    deb, root = said.stdout.strip(), tmp_path / "root"
    fields = subprocess.check_output(["dpkg-deb", "--field", deb], text=True)
    assert re.search(r"^Version: [0-9.]+~[0-9]{8}\.[0-9]{4}$", fields, re.M)
    assert re.search(r"^Depends: libc6 .*, libfuse3-[0-9] .*, fuse3$", fields, re.M)
    subprocess.run(["dpkg-deb", "--extract", deb, root], check=True)
    assert {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()} == FILES

    m = mount(start=False)
    m.argv[0] = root / "usr/bin/cframefs"
    m.start()
    (m.mnt / "f").write_bytes(data := blob(1, 300_001, "text"))
    m.unmount()
    got = subprocess.check_output([root / "usr/bin/cframe", "cat", m.stored("f")])
    assert got == data
