"""What PyTorch's own dropout dropped on a GPU, on any machine: the layout `torch`."""

import torch

ops = torch.ops.twinops
_BLOCK = 256  # threads


class DropoutReplay:
    """Plays torch.nn.functional.dropout of CUDA tensors again, in eager mode: the same elements are
    dropped, and those that are kept have the same bits, on a CPU or another GPU.

    state: what torch.cuda.get_rng_state() gave before the first dropout, or (seed, offset).
    multiprocessors: of that GPU: torch.cuda.get_device_properties(0).multi_processor_count; an H100 or
        H200 with SXM has 132.
    threads: that one of them holds: max_threads_per_multi_processor; 2048 on an A100, H100, H200.
    largest: the most elements that PyTorch's kernel takes at once: 8 as of 2.11; some earlier versions
        take 4.

    The tensors must be laid out in memory as they were there: PyTorch's words follow the memory, and
    how many it takes at once depends on alignment (storage_offset) and on the number of elements. A
    call moves the offset as it moved there; other calls that draw must be made up for in `offset`.
    """

    def __init__(self, state, multiprocessors, threads=2048, largest=8):
        if isinstance(state, torch.Tensor):
            words = state.cpu().contiguous().view(torch.int64)
            if words.numel() != 2:
                raise ValueError(
                    f"expected the 16 bytes of torch.cuda.get_rng_state(), got {8 * words.numel()}"
                )
            state = words.tolist()
        seed, self.offset = state
        self.seed = (seed + 2**63) % 2**64 - 2**63  # as the operator takes it
        self.threads = multiprocessors * (threads // _BLOCK) * _BLOCK
        self.largest = largest

    def dropout(self, input, p=0.5, training=True):
        """torch.nn.functional.dropout as it was there: (y, mask), where mask is bool, True = kept. With
        a gradient. A dropped element is +0, where PyTorch multiplies with 0."""
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        if not training or p in (0.0, 1.0) or input.numel() == 0:  # nothing is drawn there either
            y, mask = ops.dropout(input, p=float(p), training=training, mask_type="bool")
            return y, mask.view(input.shape)
        order = _order_in_memory(input)
        vector = 1 if order is None else self._vector(input)
        order = range(input.dim()) if order is None else order
        y, mask = ops.dropout(
            input.permute(*order),
            p=float(p),
            seed=self.seed,
            offset=self.offset,
            layout="torch",
            period=self.threads,
            vector=vector,
            mask_type="bool",
        )
        launched = min(-(-input.numel() // _BLOCK) * _BLOCK, self.threads)
        self.offset += 4 * ((input.numel() - 1) // (4 * launched) + 1)
        back = [0] * input.dim()
        for i, axis in enumerate(order):
            back[axis] = i
        return y.permute(*back), mask.permute(*back)

    def _vector(self, x):
        """16 bytes, or as many as begin at such an address; the operator takes fewer where they do not
        divide the tensor."""
        vector = min(16 // x.element_size(), self.largest)
        while x.storage_offset() % vector:
            vector //= 2
        return vector


def _order_in_memory(x):
    """The axes from the outermost in memory to the innermost; None if there are gaps or repeats."""
    order = sorted(range(x.dim()), key=lambda i: (-x.stride(i), i))
    expected = 1
    for axis in reversed(order):
        if x.size(axis) == 1:
            continue
        if x.stride(axis) != expected:
            return None
        expected *= x.size(axis)
    return order
