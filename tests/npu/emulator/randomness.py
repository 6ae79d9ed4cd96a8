"""Numbers drawn on the emulated device: torch_npu's own generator state, expanded by a CPU generator.

The numbers differ from a real device's Philox; what is kept is that a state gives the same numbers again, that a
draw advances the state, and that each device has a state of its own.
"""

from __future__ import annotations

import torch

_OFFSET_STEP = 4  # a Philox kernel advances the offset by at least this


def cpu_generator(generator: torch.Generator | None, device: torch.device) -> torch.Generator:
    """A CPU generator for one draw, seeded from the state of ``generator`` (or the device's), which is advanced."""
    generator = generator if generator is not None else torch.npu.default_generators[device.index]
    if generator.device.type != device.type:
        raise RuntimeError(f"Expected a '{device.type}' generator but found '{generator.device.type}'")
    state = generator.get_state()
    seed_and_offset = state.view(torch.int64)
    seed, offset = seed_and_offset.tolist()
    seed_and_offset[1] += _OFFSET_STEP
    generator.set_state(state)
    return torch.Generator().manual_seed(hash((seed, offset)) & (2**63 - 1))
