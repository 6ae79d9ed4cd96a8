# The page on a CPU, with its weights inside; once built it needs no network. Also what a Docker Space runs.
#
#   docker build -t specviz --build-arg PIP_EXTRA_INDEX_URL=<the CPU index of PyTorch> .
#   docker run --rm -p 7860:7860 specviz
#
# Without that argument pip takes the default build of PyTorch, which on x86 is several times as large.

FROM python:3.11-slim-bookworm

ARG PIP_EXTRA_INDEX_URL
ENV PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1

RUN useradd --create-home --uid 1000 user && install --directory --owner=user /home/user/app
WORKDIR /home/user/app

COPY requirements.txt ./
RUN pip install --no-cache-dir -r requirements.txt

USER user
ENV HOME=/home/user SPECVIZ_CACHE=/home/user/.cache/specviz

# What the weights are made with, before the rest: other changes keep this layer.
COPY --chown=1000:1000 requirements-weights.txt ./
COPY --chown=1000:1000 specviz/__init__.py specviz/ascend.py specviz/devices.py specviz/errors.py specviz/npu.py specviz/
COPY --chown=1000:1000 specviz/trace specviz/trace
COPY --chown=1000:1000 specviz/models specviz/models
RUN python -m specviz.models.fetch

COPY --chown=1000:1000 app.py ./
COPY --chown=1000:1000 assets assets
COPY --chown=1000:1000 specviz specviz

ENV GRADIO_SERVER_NAME=0.0.0.0 GRADIO_SERVER_PORT=7860
EXPOSE 7860
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "-c", "import os, urllib.request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:' + os.environ['GRADIO_SERVER_PORT'], timeout=5)"]
# Python ends tidily on an interrupt; as process 1 it would not notice a termination.
STOPSIGNAL SIGINT
CMD ["python", "app.py"]
