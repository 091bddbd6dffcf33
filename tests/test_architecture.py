"""Who may import whom, what never meets whom, and where tests must lie."""

import ast
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from training.providers.local import trainer_environment

ROOT = Path(__file__).resolve().parent.parent
OURS = ("gligabao", "training", "datasets")
TRAINER = ROOT / "trainer_image" / "trainer"
TRAINER_LIBRARIES = {"torch", "transformers", "peft", "trl", "accelerate", "safetensors", "gguf"}

# A module imports only from its own row or a lower one. The longest prefix decides.
ROWS = {
    9: ["gligabao", "gligabao.urls", "gligabao.asgi", "gligabao.wsgi", "gligabao.celery"],
    8: [
        *(
            f"{app}.{part}"
            for app in OURS
            for part in ("api", "console", "management", "admin", "apps")
        ),
        "training.templatetags",
        "gligabao.templatetags",
        "training.checks",
        "gligabao.health",
        "gligabao.schema",
        "gligabao.storage.asgi",
        "gligabao.gate",
    ],
    7: ["training.services"],
    6: ["training.tasks"],
    5: ["training.runner"],
    4: [
        *(f"training.{name}" for name in ("events", "feed", "series", "checkpoints")),
        "datasets.services",
    ],
    3: ["training.projections", "training.models", "datasets.models", "gligabao.accounts"],
    2: [
        "training.providers",
        "gligabao.storage",
        "gligabao.static_files",
        "gligabao.beat",
        "gligabao.broker",
        "gligabao.file_queue",
        "gligabao.supervisor",
        "gligabao.web",
    ],
    1: [
        *(
            f"training.{name}"
            for name in ("states", "contract", "catalog", "hyperparams", "tokens")
        ),
        *(
            f"training.{name}"
            for name in (
                "progress",
                "event_text",
                "safetensors_file",
                "model_files",
                "series_fold",
                "chat_tokens",
                "token_summary",
            )
        ),
        "training",
        "datasets",
        "datasets.formats",
        "datasets.manifest",
    ],
    0: [
        *(
            f"gligabao.{name}"
            for name in ("errors", "env", "settings", "checks", "databases", "rest")
        ),
        *(f"gligabao.{name}" for name in ("access", "security", "secret_files", "secrets_filter")),
        *(
            f"gligabao.{name}"
            for name in ("terminal", "units", "languages", "compression", "outages")
        ),
    ],
}
ROW_OF = {module: row for row, modules in ROWS.items() for module in modules}
APPS = {"training", "datasets", "gligabao"}


def sources(*folders):
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def row_of(module):
    """The row of a module, None when no line of the table names it or a package around it."""
    name = module
    while name:
        # An app's own name stands for its empty `__init__`, not for all that is inside.
        if name in ROW_OF and (name == module or name not in APPS):
            return ROW_OF[name]
        name = name.rpartition(".")[0]
    return None


def imports_of(path):
    """Every module that a file imports, wherever the import stands, as (line, name)."""
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                around = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*around, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def control_plane_sources():
    return [path for path in sources(*OURS) if "migrations" not in path.parts]


@pytest.mark.parametrize("path", control_plane_sources(), ids=module_of)
def test_module_imports_only_from_its_own_row_or_a_lower_one(path):
    own = row_of(module_of(path))
    assert own is not None, f"{module_of(path)} stands in no row of tests/test_architecture.py"

    too_high = [
        f"line {line}: {name} (row {row_of(name)})"
        for line, name in imports_of(path)
        if name.partition(".")[0] in OURS and (row_of(name) or 0) > own
    ]
    assert not too_high, f"row {own} imports from above: {too_high}"


def test_datasets_never_imports_training():
    found = [
        f"{module_of(path)}:{line}"
        for path in sources("datasets")
        for line, name in imports_of(path)
        if name.partition(".")[0] == "training"
    ]

    assert not found


@pytest.mark.parametrize("path", control_plane_sources(), ids=module_of)
def test_own_modules_are_imported_at_the_top(path):
    # Django calls `ready` when models may be imported; before that they may not.
    if path.name == "apps.py":
        return
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    inner = [
        node.lineno
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS
    ]

    assert not inner, f"lines {inner}"


def test_control_plane_names_no_library_of_the_trainer():
    found = [
        f"{module_of(path)}:{line} {name}"
        for path in control_plane_sources()
        for line, name in imports_of(path)
        if name.partition(".")[0] in TRAINER_LIBRARIES | {"trainer"}
    ]

    assert not found


def test_importing_the_whole_control_plane_loads_no_library_of_the_trainer(tmp_path):
    modules = [module_of(path) for path in control_plane_sources()]
    code = (
        "import importlib, json, sys\n"
        "import django\n"
        "django.setup()\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "print(json.dumps({name: getattr(module, '__file__', None) for name, module in sys.modules.items()}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={
            "PATH": "",
            "DJANGO_SETTINGS_MODULE": "gligabao.settings",
            "GLIGABAO_DATA_DIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = json.loads(result.stdout)

    assert not TRAINER_LIBRARIES & set(loaded)
    assert Path(loaded["datasets"]) == ROOT / "datasets" / "__init__.py"


def test_trainer_names_no_module_of_the_control_plane():
    found = [
        f"{path.name}:{line} {name}"
        for path in sources("trainer_image")
        for line, name in imports_of(path)
        if name.partition(".")[0] in {"gligabao", "training", "django", "celery", "rest_framework"}
    ]

    assert not found


def test_trainer_sees_the_library_datasets_and_none_of_our_apps(tmp_path):
    code = (
        "import json\n"
        "from importlib.util import find_spec\n"
        "names = ['datasets', 'trainer', 'training', 'gligabao', 'tests']\n"
        "specs = {name: find_spec(name) for name in names}\n"
        "print(json.dumps({name: spec and spec.origin for name, spec in specs.items()}))"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=ROOT,  # the worst place that a job's folder could be
        env=trainer_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(result.stdout)

    assert "site-packages" in found["datasets"]
    assert Path(found["trainer"]) == TRAINER / "__init__.py"
    assert (found["training"], found["gligabao"], found["tests"]) == (None, None, None)


def test_project_is_not_installed_as_a_package():
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("gligabao")


def test_templates_hold_no_script_style_or_handler():
    hostile = re.compile(
        r"<script(?![^>]*\bsrc=)[^>]*>|<style|\son[a-z]+\s*=|\sstyle\s*=|javascript:", re.IGNORECASE
    )
    templates = [
        path for folder in ("templates", *OURS) for path in (ROOT / folder).rglob("*.html")
    ]

    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in templates
        for match in hostile.finditer(path.read_text(encoding="utf-8"))
    ]

    assert templates
    assert not found


def test_every_folder_of_tests_is_a_package():
    folders = {path.parent for path in (ROOT / "tests").rglob("*.py")}

    assert not [str(folder) for folder in folders if not (folder / "__init__.py").exists()]


def test_every_test_is_one_that_make_test_collects():
    def holds_tests(path):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        return any(getattr(node, "name", "").startswith(("test_", "Test")) for node in tree.body)

    elsewhere = [
        str(path.relative_to(ROOT))
        for path in sources(*OURS, "trainer_image/trainer", "benchmarks")
        if path.name.startswith("test_") or path.name.endswith("_test.py")
    ]
    misnamed = [
        str(path.relative_to(ROOT))
        for path in sources("tests", "trainer_image/tests")
        if not path.name.startswith("test_") and holds_tests(path)
    ]

    assert not elsewhere
    assert not misnamed


def test_make_test_leaves_nothing_out():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE).group(1)
    arguments = dict(re.findall(r"^(PYTEST_ARGS\w*) \?= ?(.*)$", makefile, re.MULTILINE))

    assert recipe.splitlines() == [
        "\t$(RUN) -m pytest $(PYTEST_ARGS)",
        "\tcd trainer_image && ../$(RUN) -P -m pytest $(PYTEST_ARGS_TRAINER)",
    ]
    assert arguments == {"PYTEST_ARGS": "-n 2", "PYTEST_ARGS_TRAINER": ""}
    conftests = [
        path.read_text(encoding="utf-8")
        for folder in ("tests", "trainer_image/tests")
        for path in (ROOT / folder).rglob("conftest.py")
    ]
    assert not any("collect_ignore" in text for text in conftests)
