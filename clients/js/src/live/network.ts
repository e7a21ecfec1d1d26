/** What a browser tells of the network that the device is on, where it does: Android's do. */
interface Connection extends EventTarget {
  type?: string;
}

/** Calls back when the device is back on a network, or on one of another kind. Returns what ends that. */
export function watchNetwork(changed: () => void): () => void {
  const connection = (globalThis.navigator as { connection?: Connection } | undefined)?.connection;
  let type = connection?.type;
  // A connection "changes" with each new estimate of its speed, too.
  const look = () => {
    if (connection?.type === type) return;
    type = connection?.type;
    changed();
  };
  globalThis.addEventListener?.("online", changed);
  connection?.addEventListener?.("change", look);
  return () => {
    globalThis.removeEventListener?.("online", changed);
    connection?.removeEventListener?.("change", look);
  };
}
