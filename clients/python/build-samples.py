"""Builds the samples of events where the package is made from a clone of the repository. A source distribution has them."""

import pathlib
import subprocess
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SamplesHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        setup = pathlib.Path(self.root, "../../cmd/dev/setup.mjs")
        if setup.exists():
            subprocess.run(["node", setup, "client-files"], check=True)
