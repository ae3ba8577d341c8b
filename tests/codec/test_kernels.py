"""Kernels of every level against C."""

import os
import platform
import shutil

import pytest

from libmount import BUILD, REPO
from libprogram import run


@pytest.mark.watchdog(900)
def test_kernels_equal_those_in_c():
    """Every level that this machine has; those that all processors of its kind have are there."""
    said = run(BUILD / "tests/c/kernels_check", os.getpid(), timeout=800)
    always = {"x86_64": "sse2", "aarch64": "neon"}.get(platform.machine(), "c")
    assert always in said.partition(" calls equal: ")[2].split()


def test_loops_without_levels():
    """Truncation of numbers, and the search for runs, whose levels are those of the C library."""
    assert "calls right" in run(BUILD / "tests/c/filters_check", os.getpid(), timeout=200)


@pytest.mark.release
@pytest.mark.watchdog(900)
def test_neon_kernels_under_an_emulator(tmp_path):
    """The packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user."""
    compiler, emulator = shutil.which("aarch64-linux-gnu-gcc"), shutil.which("qemu-aarch64")
    if not compiler or not emulator:
        pytest.skip("no cross compiler for aarch64, or no emulator")
    kernels = REPO / "src/codec/kernels"
    run(
        compiler,
        "-O2",
        "-static",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-DHAVE_NEON",
        "-Wall",
        "-Werror",
        "-I",
        REPO / "src",
        "-o",
        tmp_path / "kernels_check",
        kernels / "kernels.c",
        kernels / "cpu.c",
        kernels / "arm/neon.c",
        REPO / "src/codec/codecs/lz4_fast.c",
        *(REPO / "src/codec/zstd").glob("*.c"),
        REPO / "tests/c/kernels_check.c",
    )
    said = run(
        emulator,
        tmp_path / "kernels_check",
        os.getpid(),
        timeout=800,
        env={**os.environ, "CPU_MASK": "neon"},
    )
    assert said.endswith(" calls equal: neon\n")


@pytest.mark.release
@pytest.mark.parametrize("missing", ["avx2", "bmi1", "bmi2", "abm", "popcnt"])
def test_no_avx2_kernels_without_all_that_they_use(missing):
    """As in a virtual machine that hides one of them. The package qemu-user."""
    emulator = shutil.which("qemu-x86_64")
    if not emulator or platform.machine() != "x86_64":
        pytest.skip("no emulator of x86-64, or not needed")
    said = run(emulator, "-cpu", f"max,-{missing}", BUILD / "tests/c/unzstd_check", 1, 5)
    assert said == "no reader\n"
