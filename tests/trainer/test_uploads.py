"""Uploads to signed addresses, and what happens when the store says no."""

import hashlib

import pytest

from tests.trainer.control_plane import EXPIRED, WRONG_SIGNATURE, free_port
from tests.trainer.jobs import JOB_TOKEN
from trainer import uploads
from trainer.artifacts import Artifact
from trainer.errors import JobFailed, Stopped
from trainer.secret_text import SecretText
from trainer.stop import StopSignal
from trainer.uploads import Uploader, UploadGivenUp

FILES = {"adapter_config.json": b"{}", "adapter_model.safetensors": b"weights" * 1000}


@pytest.fixture
def output(tmp_path):
    folder = tmp_path / "output"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def stop(tmp_path):
    return StopSignal(tmp_path / "stop", max_seconds=600)


@pytest.fixture
def upload(output, stop):
    def run(address: str) -> None:
        artifacts = [
            Artifact(name, len(content), hashlib.sha256(content).hexdigest())
            for name, content in FILES.items()
        ]
        Uploader(address, job_token=JOB_TOKEN, secret_text=SecretText(JOB_TOKEN), stop=stop).upload(
            output, artifacts
        )

    return run


def test_a01_files_arrive_with_exactly_the_given_headers(upload, control_plane):
    upload(control_plane.uploads_url)

    assert control_plane.files == FILES
    assert control_plane.tokens == [f"Bearer {JOB_TOKEN}"]
    for headers in control_plane.put_headers:
        sent = {name.lower() for name in headers}
        assert "content-type" not in sent
        assert "authorization" not in sent
        assert "transfer-encoding" not in sent
        assert {"content-length", "x-amz-meta-sha256"} <= sent


def test_a01_wrong_signature_is_tried_once_and_named(upload, control_plane):
    control_plane.answers["put"] = [WRONG_SIGNATURE]

    with pytest.raises(JobFailed) as failure:
        upload(control_plane.uploads_url)

    assert failure.value.message == (
        "Upload of adapter_config.json was refused with status 403 SignatureDoesNotMatch."
    )
    assert len(control_plane.put_headers) == 1
    assert len(control_plane.manifests) == 1


def test_a03_expired_addresses_are_asked_for_again(upload, control_plane):
    control_plane.answers["put"] = [EXPIRED]

    upload(control_plane.uploads_url)

    assert control_plane.files == FILES
    assert len(control_plane.manifests) == 2


def test_a03_addresses_that_expire_at_once_end_the_job(upload, control_plane):
    control_plane.answers["put"] = [EXPIRED, EXPIRED]

    with pytest.raises(JobFailed, match=r"adapter_config\.json.*expired"):
        upload(control_plane.uploads_url)


def test_server_errors_are_tried_again(upload, control_plane):
    control_plane.answers["put"] = [(503, b"")]
    control_plane.answers["uploads"] = [(500, b"")]

    upload(control_plane.uploads_url)

    assert control_plane.files == FILES


def test_files_stay_when_nobody_takes_them(upload, output, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_RETRY_SECONDS", 0.0)

    with pytest.raises(UploadGivenUp, match="URLError"):
        upload(f"http://127.0.0.1:{free_port()}/uploads")

    assert {path.name for path in output.iterdir()} == set(FILES)


def test_files_stay_when_addresses_are_refused(upload, control_plane):
    control_plane.answers["uploads"] = [(409, b"")]

    with pytest.raises(UploadGivenUp, match="status 409"):
        upload(control_plane.uploads_url)


def test_stop_breaks_an_upload_off(upload, control_plane, stop):
    control_plane.on_put = stop.ask

    with pytest.raises(Stopped):
        upload(control_plane.uploads_url)

    assert len(control_plane.put_headers) == 1


def test_texts_of_failures_hold_no_signature(upload, control_plane, capsys):
    control_plane.answers["put"] = [(500, b""), WRONG_SIGNATURE]

    with pytest.raises(JobFailed) as failure:
        upload(control_plane.uploads_url)

    printed = capsys.readouterr()
    for text in (failure.value.message, printed.out, printed.err):
        assert "X-Amz-Signature" not in text
        assert JOB_TOKEN not in text
