"""What the manual says is there, and what is there stands in the manual."""

import json
import re
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from django.urls import get_resolver
from drf_spectacular.generators import SchemaGenerator

from tests.test_settings import variables
from training.hyperparams import HYPERPARAMS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
OURS = ("gligabao", "training", "datasets")
COMMANDS = sorted(name for name, app in get_commands().items() if app in OURS)
METHODS = ("get", "post", "put", "patch", "delete")
COMMON_OPTIONS = {"--db", "--json"}
DJANGO_OPTIONS = {
    "--help",
    "--version",
    "--verbosity",
    "--settings",
    "--pythonpath",
    "--traceback",
    "--no-color",
    "--force-color",
    "--skip-checks",
}


def sections(text):
    """The text under each heading of the second level whose title is code."""
    parts = re.split(r"^## `([^`]+)`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def in_tables(text):
    """Variables in the first column of tables, without the mark of secrets."""
    return set(re.findall(r"^\| `([A-Z_]+)`", text, flags=re.MULTILINE))


def normal(path):
    return re.sub(r"\{[^}]*\}", "{}", path)


def documented_endpoints():
    found = re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/\S+)`", DOCS["api.md"])
    return {(method, normal(path)) for method, path in found}


def endpoints():
    """Every method and path under /v1/gb/, from the schema; the feed is no view of DRF's."""
    schema = SchemaGenerator().get_schema(request=None, public=True)
    found = {
        (method.upper(), normal(path))
        for path, methods in schema["paths"].items()
        for method in methods
        if method in METHODS
    }
    feed = {("GET", "/v1/gb/training/events")}
    health = {("GET", "/healthz"), ("GET", "/readyz")}
    return found | feed | health


def test_settings_page_lists_every_variable_and_no_other():
    assert in_tables(DOCS["settings.md"]) == variables()


def test_settings_page_marks_every_secret():
    code = (ROOT / "gligabao" / "settings.py").read_text(encoding="utf-8")
    secrets = set(re.findall(r'env_secret\(\s*"([A-Z_]+)"', code))

    assert (
        set(re.findall(r"^\| `([A-Z_]+)` \*", DOCS["settings.md"], flags=re.MULTILINE)) == secrets
    )


def test_every_variable_that_is_mentioned_exists():
    files = ["Makefile", "Dockerfile", "docker-compose.yml", ".env.example"]
    texts = [README, *DOCS.values(), *((ROOT / name).read_text(encoding="utf-8") for name in files)]
    mentioned = {name for text in texts for name in re.findall(r"\bGLIGABAO_[A-Z_]+[A-Z]", text)}

    assert mentioned <= variables()


def test_commands_page_has_a_section_for_each_command():
    assert sorted(sections(DOCS["commands.md"])) == COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_section_of_a_command_names_its_options_and_no_other(name):
    command = load_command_class(get_commands()[name], name)
    parser = command.create_parser("manage.py", name)
    options = {
        text for action in parser._actions for text in action.option_strings if text[:2] == "--"
    }
    text = sections(DOCS["commands.md"])[name]

    documented = set(re.findall(r"^- (?:`--[\w-]+` or )?`(--[\w-]+)", text, flags=re.MULTILINE))
    documented |= set(re.findall(r"^- `(--[\w-]+)`", text, flags=re.MULTILINE))

    assert documented - COMMON_OPTIONS == options - DJANGO_OPTIONS - COMMON_OPTIONS
    positional = {action.dest for action in parser._actions if not action.option_strings}
    assert all(f"`{argument}`" in text for argument in positional)


@pytest.mark.django_db
def test_api_page_lists_every_endpoint_and_no_other():
    assert documented_endpoints() == endpoints()


def test_api_page_has_every_hyperparameter_with_its_range_and_default():
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \| (.+?) \|$", DOCS["api.md"], re.MULTILINE)

    assert [row[0] for row in rows] == list(HYPERPARAMS)
    for name, words, default, meaning in rows:
        allowed = HYPERPARAMS[name]
        assert (words, meaning) == (allowed.words, allowed.meaning)
        shown = "the model's" if allowed.default is None else allowed.default
        assert default == shown or json.loads(default) == shown, name


def test_feed_is_where_the_page_says():
    assert get_resolver().resolve("/v1/gb/training/events")


def test_manual_links_every_page_and_no_link_is_dead():
    pages = {"README.md": README} | {f"docs/{name}": text for name, text in DOCS.items()}
    for page, text in pages.items():
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page}: {target}"

    linked = set(re.findall(r"\]\(([a-z]+\.md)\)", DOCS["README.md"]))
    assert linked == set(DOCS) - {"README.md"}


def test_readme_and_manual_name_only_what_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    text = "\n".join([README, *DOCS.values()])

    for target in re.findall(r"\bmake ([a-z]+)\b", code_of(text)):
        assert target in targets, target
    for name in re.findall(r"manage\.py ([a-z_]+)", code_of(text)):
        assert name in get_commands(), name


def code_of(text):
    """Only what is set as code: prose may say "make it"."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return "\n".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])


def test_readme_maps_every_folder():
    mapped = set(re.findall(r"`([a-z_]+)/`", README))
    folders = {
        path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")
    }

    assert mapped == folders - {"data", "build", "staticfiles", "__pycache__"}


def test_changelog_opens_with_what_is_not_released_yet():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert text.startswith("# Changelog\n\n## Unreleased\n\n### Added\n")


def test_licence_is_the_whole_text():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")

    assert "Version 2.0, January 2004" in text
    assert text.rstrip().endswith("limitations under the License.")
