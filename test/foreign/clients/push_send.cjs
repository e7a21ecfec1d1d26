// Sends one message with npm's web-push, which encrypts and signs; it dials https alone, so fetch sends what it has made. What to send is JSON on
// standard input; the status and the Location of the answer are printed.
const webpush = require("web-push");

let input = "";
process.stdin.on("data", (part) => { input += part; });
process.stdin.on("end", async () => {
  const what = JSON.parse(input);
  const made = webpush.generateRequestDetails(what.subscription, what.text, {
    vapidDetails: { subject: "mailto:ops@example.org", publicKey: what.public, privateKey: what.private },
    TTL: what.ttl,
    topic: what.topic || undefined,
    contentEncoding: what.encoding || "aes128gcm",
  });
  delete made.headers["Content-Length"];
  const answer = await fetch(made.endpoint, { method: made.method, headers: made.headers, body: made.body });
  console.log(answer.status, answer.headers.get("location") || "");
});
