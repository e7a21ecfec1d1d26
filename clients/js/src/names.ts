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

/** Whether a text is a name: of an app, recipient, notification, group, object or device. */
export function isName(text: string): boolean {
  return /^[A-Za-z0-9._:@+-]{1,128}$/.test(text) && !text.endsWith("\n");
}
