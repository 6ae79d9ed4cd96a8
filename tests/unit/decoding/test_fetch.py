"""Several tensors to the host in one copy: what ``tolist`` gives for each, whatever its shape and dtype."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specviz.decoding.fetch import fetch

TENSORS = [
    torch.tensor(7),
    torch.tensor(True),
    torch.tensor([False, True]),
    torch.tensor([], dtype=torch.int64),
    torch.tensor([2**24, 151_935]),
    torch.zeros(0, 3),
    torch.zeros(2, 0),
    torch.arange(6).view(2, 3).t(),
    torch.rand(2, 2, 3),
    torch.tensor([0.1], dtype=torch.bfloat16),
    torch.tensor([torch.inf, 1e-30]),
]


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda tensor: f"{tensor.dtype}{list(tensor.shape)}")
def test_one_tensor_is_its_own_list(tensor: Tensor) -> None:
    assert fetch(tensor) == [tensor.tolist()]


def test_all_at_once_come_back_in_their_order() -> None:
    assert fetch(*TENSORS) == [tensor.tolist() for tensor in TENSORS]
    assert fetch(*reversed(TENSORS)) == [tensor.tolist() for tensor in reversed(TENSORS)]
