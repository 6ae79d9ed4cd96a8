// A value that runs from 0 to `end`: play, pause, jump. Where motion is unwelcome, `toggle` goes on by one `stride`.

export function makePlayer({ root, end, seconds, stride = end, onChange }) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const state = { at: end, playing: false, speed: 1 };
  let last = 0;
  let scheduled = false;

  const change = (changes) => {
    Object.assign(state, changes);
    onChange();
  };

  function schedule() {
    if (!scheduled) requestAnimationFrame(frame);
    scheduled = true;
  }

  function frame(now) {
    scheduled = false;
    if (!state.playing || !root.isConnected) return;
    const passed = Math.max(0, Math.min(0.1, (now - last) / 1000));
    last = now;
    const at = Math.min(end, state.at + (end * passed * state.speed) / seconds);
    change({ at, playing: at < end });
    if (state.playing) schedule();
  }

  function play(from) {
    if (calm.matches) return change({ at: end, playing: false });
    last = performance.now();
    change({ at: from, playing: true });
    schedule();
  }

  function step() {
    const again = state.at >= end && stride < end;
    change({ at: again ? 0 : Math.min(end, Math.floor(state.at / stride + 1) * stride), playing: false });
  }

  return {
    state,
    play,
    jump: (at) => change({ at, playing: false }),
    toggle() {
      if (state.playing) change({ playing: false });
      else if (calm.matches) step();
      else play(state.at >= end ? 0 : state.at);
    },
  };
}
