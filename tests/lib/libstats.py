"""The statistics of a mount, and by how much they change."""

import json
import os

XATTR = "user.cframefs.stats"


def stats(m):
    return json.loads(os.getxattr(m.mnt, XATTR))


class Moved:
    """with Moved(mount) as moved: ...; then moved("read", "decoded_blocks") is by how much."""

    def __init__(self, m):
        self.mount = m

    def __enter__(self):
        self.before = stats(self.mount)
        return self

    def __exit__(self, *error):
        self.after = stats(self.mount)

    def __call__(self, group, name):
        return self.after[group][name] - self.before[group][name]

    def answers(self):
        return {
            name: moved
            for name in self.after["answered_from"]
            if (moved := self("answered_from", name))
        }
