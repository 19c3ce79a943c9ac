"""What a project says of itself is read without running any of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rolecraft.errors import UsageError
from rolecraft.synthesis.planning.compiled import check_pure
from rolecraft.synthesis.planning.metadata import Metadata, name_of, read_metadata
from rolecraft.synthesis.planning.requirements import imported_modules, requirements

Project = Callable[[dict[str, str]], Path]

PACKAGE_INFO = """\
Metadata-Version: 2.4
Name: Shapes_And.Areas
Version: 1.2
Requires-Dist: attrs>=20
Requires-Dist: tomli>=1; python_version < "3.11"
Provides-Extra: test
Requires-Dist: hypothesis; extra == "test"
Requires-Dist: mock; (python_version < "3.3") and extra == "test"

Shapes.
"""


def test_package_info_of_an_sdist_says_everything(project: Project) -> None:
    said = read_metadata(project({"PKG-INFO": PACKAGE_INFO, "setup.py": "boom("}))
    assert (said.name, said.version) == ("Shapes_And.Areas", "1.2")
    assert said.requires == ("attrs>=20", 'tomli>=1; python_version < "3.11"')
    assert said.groups == {"test": ("hypothesis", 'mock; (python_version < "3.3")')}


def test_pyproject_with_groups_that_include_groups(project: Project) -> None:
    text = """
[build-system]
build-backend = "hatchling.build"
[project]
name = "shapes"
dynamic = ["version"]
dependencies = ["attrs"]
[project.scripts]
shapes = "shapes:main"
[project.entry-points.pytest11]
shapes = "shapes.plugin"
[project.optional-dependencies]
fast = ["numpy"]
[dependency-groups]
test = ["hypothesis", {include-group = "base"}]
base = ["mock", {include-group = "test"}]
"""
    folder = project({"pyproject.toml": text, "src/shapes/__init__.py": "__version__ = '3.1'\n"})
    said = read_metadata(folder)
    assert (said.name, said.version, said.backend) == ("shapes", "3.1", "hatchling.build")
    assert said.groups["test"] == ("hypothesis", "mock")
    assert said.entry_points["console_scripts"] == {"shapes": "shapes:main"}


def test_setup_cfg_and_the_plain_words_of_setup_py(project: Project) -> None:
    cfg = """
[metadata]
name = shapes
version = attr: shapes.__version__
[options]
install_requires =
    attrs  # always
    six
[options.extras_require]
testing =
    mock
"""
    setup = "from setuptools import setup\nsetup(version='0.4', packages=find(), name='other')\n"
    said = read_metadata(project({"setup.cfg": cfg, "setup.py": setup}))
    assert (said.name, said.version) == ("shapes", "0.4")
    assert said.requires == ("attrs", "six")
    assert said.groups == {"testing": ("mock",)}


def test_poetry_has_its_own_notation(project: Project) -> None:
    text = """
[tool.poetry]
name = "shapes"
version = "1.0"
[tool.poetry.dependencies]
python = "^3.8"
attrs = "^20.1"
numpy = {version = "*", optional = true}
[tool.poetry.group.test.dependencies]
mock = "5.0"
"""
    said = read_metadata(project({"pyproject.toml": text}))
    assert said.requires == ("attrs>=20.1",)
    assert said.groups == {"test": ("mock==5.0",)}


def test_settings_that_are_no_toml_are_named(project: Project) -> None:
    with pytest.raises(UsageError, match=r"pyproject\.toml.*cannot be read"):
        read_metadata(project({"pyproject.toml": "[project\n"}))


def test_of_groups_for_developers_only_what_tests_use_is_installed(project: Project) -> None:
    """Test groups are taken whole, linters of `dev` are not; the project itself never."""
    said = Metadata(
        name="shapes",
        requires=("attrs",),
        groups={
            "tests": ("mock", "shapes[fast]"),
            "fast": ("numpy",),
            "dev": ("sphinx", "freezegun", "pytest-mock", "shapes"),
        },
    )
    folder = project({"requirements-test.txt": "-r more.txt\nlxml # xml\n-e .\n", "more.txt": "a"})
    settings = {"addopts": "--cov=shapes -q", "required_plugins": "pytest-xdist>=1"}
    modules = imported_modules(["import freezegun.api\nfrom os import path\n", "def broken("])
    needs, tests = requirements(folder, said, settings, modules)
    assert needs == ["attrs"]
    assert set(tests) == {
        *("pytest", "mock", "numpy", "a", "lxml", "pytest-mock", "freezegun"),
        *("pytest-xdist>=1", "pytest-cov"),
    }


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("More_Itertools[x]>=1", "more-itertools"), ("a ; b", "a"), ("-e .", ""), ("./a", "")],
)
def test_the_name_in_a_requirement(requirement: str, name: str) -> None:
    assert name_of(requirement) == name


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"pyproject.toml": "[build-system]\nbuild-backend='mesonpy'"}, "backend is `mesonpy`"),
        ({"setup.py": "setup(ext_modules=[Extension('a', ['a.c'])])"}, "ext_modules"),
        ({"shapes/fast.pyx": ""}, "`shapes/fast.pyx` is Cython"),
    ],
)
def test_what_needs_compiling_is_refused_with_the_way_out(
    project: Project, files: dict[str, str], why: str
) -> None:
    folder = project(files)
    with pytest.raises(UsageError, match=why) as caught:
        check_pure(folder, read_metadata(folder))
    assert "--pure" in str(caught.value)
    assert "--inplace" in str(caught.value)
    (folder / "fast.cpython-311-x86_64-linux-gnu.so").touch()
    check_pure(folder, read_metadata(folder))
