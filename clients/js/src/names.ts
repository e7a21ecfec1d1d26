const token = /^[A-Za-z0-9_:@+%-]+$/;

/** Throws a RangeError unless a text is a topic, or a pattern of topics. */
export function checkTopic(pattern: string): void {
  const tokens = pattern.split(".");
  const bad = tokens.findIndex((t, i) => t !== "*" && !(t === ">" && i === tokens.length - 1) && !token.test(t));
  if (pattern.length > 255 || tokens.length > 16) {
    throw new RangeError(`topic "${pattern.slice(0, 64)}" has more than 255 bytes or 16 tokens`);
  }
  if (bad >= 0) {
    throw new RangeError(
      `topic "${pattern}" has a token "${tokens[bad]}": allowed are A-Z a-z 0-9 _ : @ + -, wildcards alone`,
    );
  }
}

/** Whether a text is a name: of an app, recipient, notification, group, object or device. URLs take "." and ".." for a step. */
export function isName(text: string): boolean {
  return /^(?!\.{1,2}$)[A-Za-z0-9._:@+-]{1,128}$/.test(text) && !text.endsWith("\n");
}

/** Throws a RangeError for a path with a name in it with which the request would go to another path: "", "." or "..". */
export function checkPath(path: string): void {
  const parts = path.split("/").slice(1);
  const bad = parts.find((part) => (part === "" && path.startsWith("/v1/")) || /^(\.|%2e){1,2}$/i.test(part));
  if (bad === undefined) return;
  const why = bad ? `"${bad}", which no name is: URLs take it for a step to another path` : "an empty name";
  throw new RangeError(`path ${path} has ${why}`);
}
