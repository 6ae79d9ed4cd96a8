"""The page as Gradio serves it, without models and without a browser."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from gradio_client import Client

from specviz.errors import UserError
from specviz.runner import Limits
from specviz.service import Options, Service
from specviz.ui.app import serve
from tests.unit.ui import synthetic


def test_the_page_starts_without_pytorch() -> None:
    code = "import sys, specviz.ui.app; print([m for m in ('torch', 'transformers') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr("specviz.race.race", synthetic.race)
    monkeypatch.setattr("specviz.race.make_drafter", synthetic.draft_info)
    monkeypatch.setattr("specviz.service.describe", lambda pair: "made up")
    service = Service(Options(), load=lambda options, report: synthetic.PAIR)  # type: ignore[arg-type,return-value]
    page, address = serve(service, host="127.0.0.1")
    yield address
    page.close(verbose=False)
    service.close()


def test_the_api_is_one_endpoint_that_streams_and_refuses(address: str) -> None:
    assert httpx.get(address).status_code == 200
    client = Client(address, verbose=False)
    assert list(client.view_api(return_format="dict", print_info=False)["named_endpoints"]) == ["/race"]

    job = client.submit("Hi", max_new_tokens=40, api_name="/race")
    view, _, path = job.result(timeout=30)
    assert '"state":"finished"' in view
    assert str(path).endswith(".json")
    assert len(job.outputs()) > 3

    names = [
        one["parameter_name"]
        for one in client.view_api(return_format="dict", print_info=False)["named_endpoints"]["/race"]["parameters"]
    ]
    assert names[-4:] == ["order", "epsilon", "delta", "kl_threshold"], "what came later stands at the end"

    _, refusal, _ = client.predict("Hi", gamma=0, api_name="/race")
    assert refusal["text"] == "γ (gamma) must be a whole number from 1 to 15; you gave 0."


def test_the_operator_sets_limits_by_environment() -> None:
    options = Options.from_environment(
        {"SPECVIZ_TARGET": "a/b", "SPECVIZ_THREADS": "3", "SPECVIZ_RUN_SECONDS": "60", "SPECVIZ_DRAFT": "", "HOME": "/"}
    )
    assert options == Options(target="a/b", threads=3, limits=Limits(run_s=60.0))


@pytest.mark.parametrize(("name", "value"), [("THREADS", "0"), ("THREADS", "two"), ("MAX_NEW_TOKENS", "99999")])
def test_a_bad_environment_is_refused(name: str, value: str) -> None:
    with pytest.raises(UserError, match=f"SPECVIZ_{name} must be a whole number"):
        Options.from_environment({f"SPECVIZ_{name}": value})
