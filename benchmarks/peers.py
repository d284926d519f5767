"""What the comparisons with peers share: libtwinops.so over torch's tensors, and how time is taken.

Times are medians in microseconds of CUDA events on the current stream, with a cold L2 cache. Before
each run the stream is idle: triton.testing.do_bench, which queues run after run, adds about 1 us to
every figure, also to that of an empty launch.
"""
import ctypes
import functools
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "python"))
from twinops._call import ALLOCATE, CPU, CUDA, Call, view  # noqa: E402

LIBRARY = os.path.join(ROOT, "build", "release", "libtwinops.so")
# DLPack's code and bits of torch's types.
_TYPES = {"torch.float16": (2, 16), "torch.bfloat16": (4, 16), "torch.float32": (2, 32),
          "torch.float64": (2, 64), "torch.uint8": (1, 8), "torch.bool": (6, 8),
          "torch.int32": (0, 32), "torch.uint32": (1, 32), "torch.int64": (0, 64)}


def view_of(tensor):
    """A torch tensor, as libtwinops sees it."""
    device = (CUDA, tensor.device.index or 0) if tensor.is_cuda else (CPU, 0)
    return view(tensor.data_ptr() or None, _TYPES[str(tensor.dtype)], tensor.shape, tensor.stride(),
                device)


class Twinops:
    def __init__(self, path=LIBRARY):
        self.library = ctypes.CDLL(path)
        self.allocate = ALLOCATE(lambda context, size, stream: _scratch().data_ptr())

    def call(self, op, attributes=None, **tensors):
        """The call on torch tensors, made ready on torch's current stream; see twinops._call.Call."""
        import torch
        on_gpu = torch.cuda.is_available()
        described = {}  # by the value's identity: a host that works in place has one list of views
        views = {}
        for name, value in tensors.items():
            if id(value) not in described:
                several = value if isinstance(value, list) else [value]
                described[id(value)] = [view_of(t) for t in several]
            views[name] = described[id(value)]
        call = Call(self.library, op, views, attributes,
                    torch.cuda.current_stream().cuda_stream if on_gpu else None,
                    allocate=self.allocate if on_gpu else None)
        call.tensors = tensors  # which must live as long
        return call


def add_softmax_options(parser):
    """What the comparisons of softmax on a GPU are told alike."""
    parser.add_argument("--library", default=LIBRARY)
    parser.add_argument("--quick", action="store_true", help="a sixth of the time for each")
    parser.add_argument("--ours", action="store_true", help="no peers")
    parser.add_argument("--types", default="float32,bfloat16,float16")
    parser.add_argument("--elements", type=int, default=1 << 26, help="of a tensor, about")


@functools.cache
def _scratch():
    """What calls use that need scratch memory: more than any of these needs."""
    import torch
    return torch.empty(256 << 20, dtype=torch.uint8, device="cuda")


@functools.cache
def _flush():
    """Memory to overwrite: more than any L2 cache."""
    import torch
    return torch.empty(256 << 20, dtype=torch.uint8, device="cuda")


def microseconds(call, milliseconds=60):
    """Of one call: the median of some `milliseconds` of runs, 15 at least."""
    import torch
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times, total = [], 0.0
    while len(times) < 17 or total < milliseconds:
        _flush().zero_()
        begin.record()
        call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
        total += times[-1]
        if len(times) >= 2000:
            break
    return statistics.median(times[2:]) * 1e3


def copy_microseconds(moved, milliseconds=60):
    """Of a device-to-device copy that reads and writes `moved` bytes in all."""
    import torch
    source = torch.empty(moved // 2, dtype=torch.uint8, device="cuda").random_(0, 255)
    target = torch.empty_like(source)
    return microseconds(lambda: target.copy_(source), milliseconds)
