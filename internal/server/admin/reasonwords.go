package admin

import "godwit.dev/godwit/internal/server/admin/words"

// reasons are why a message was not sent or did not arrive, why an endpoint is paused, and how a campaign has decided. They are stored in
// English. Providers' own words stay as they are.
var reasons = []string{
	key("somebody chose it"),
	key("no clicks were counted, so the rest gets the first variant"),
	key("no views were counted, so the rest gets the first variant"),
	key("%s has the larger share: %s clicks of %s for A, %s of %s for B"),
	key("%s has the larger share: %s views of %s for A, %s of %s for B"),
	key("both have the same share, so the rest gets the first variant: %s clicks of %s for A, %s of %s for B"),
	key("both have the same share, so the rest gets the first variant: %s views of %s for A, %s of %s for B"),

	key("the recipient's quiet hours last until then"),
	key("the recipient's quiet hours end at %s, when the notification has expired"),
	key("the recipient's preferences do not let what has no category come over %s"),
	key("the recipient's preferences do not let category %s come over %s"),
	key("as many steps of what has no category as the app allows have begun for the recipient: %s"),
	key("as many steps of category %s as the app allows have begun for the recipient: %s"),
	key("as many campaigns of what has no category have reached the person as the app allows: %s; the last one at %s"),
	key("as many campaigns of category %s have reached the person as the app allows: %s; the last one at %s"),
	key("the recipient has no active endpoint of this channel"),
	key("acknowledged, or ended in another way, before it was sent"),
	key("recalled before it was sent"),
	key("cancelled"),
	key("the subscriber has left"),
	key("the endpoint is disabled: %s"),
	key("nobody took it in time"),
	key("gave up after %s attempts: %s"),
	key("no time is left for another attempt: %s"),
	key("not sent: %s"),
	key("expired before it was sent"),
	key("the message cannot be encoded"),
	key("the mailbox is full"),
	key("the server has too little free disk space"),
	key("it is no longer in the mailbox"),
	key("it was acknowledged, replaced or had expired before"),
	key("telegram deletes messages only within 48 hours"),
	key("its message id is not known"),
	key("a sticker has no text"),
	key("there is no such endpoint"),
	key("gone"),
	key(pausedByHand),
	key("timeout"),
	key("lookup %s: no such host"),
	key("dial %s: connection refused"),

	key("telegram answered 403: Forbidden: bot was blocked by the user"),
	key("telegram answered 403: Forbidden: user is deactivated"),
	key("telegram answered 400: Bad Request: chat not found"),
	key("%s answered %s with a web page: something else may answer in its place"),
	key("%s answered %s: too many requests, or overloaded"),
	key("%s answered %s: the address has ended"),
	key("%s answered %s: the address has ended: %s"),
	key("%s answered %s: not now"),
	key("%s answered %s: it failed"),
	key("%s answered %s: the message is too large"),
	key("%s answered %s: the message is refused"),
	key("%s answered %s: the message is refused: %s"),
	key("%s answered %s: our credentials, our headers or the address are refused"),
	key("%s answered %s: our credentials, our headers or the address are refused: %s"),
	key("%s answered %s: redirects are not followed"),
	key("%s answered %s: the app was removed from the device, or has another token by now"),
	key("%s answered %s: the token has ended"),
	key("%s answered %s: too many messages to this device"),
	key("%s answered %s: overloaded"),
	key("sent to %s, which gave no answer: %s"),
	key("not sent to %s: %s"),
	key("%s cannot be reached: %s"),
	key("%s is at an address that is not public"),
}

var knownReasons = sayingsOf(reasons)

// reasonIn says a stored reason in a language; an unknown one stays as it is.
func reasonIn(l *words.Language, stored string) string {
	said, _ := knownReasons.in(l, stored)
	return said
}
