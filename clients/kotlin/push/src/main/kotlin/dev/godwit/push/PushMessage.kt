package dev.godwit.push

import dev.godwit.Notification
import dev.godwit.wire.JsonMembers
import dev.godwit.wire.MemberException

/** What a message that came by push, or a notification that came live, wants to have shown. */
public class PushMessage internal constructor(
    /** The notification's or the delivery's id, by which it is shown once. */
    public val id: String,
    /** The title; empty if there is none. */
    public val title: String = "",
    /** The text; empty if there is none. */
    public val body: String = "",
    /** The URL of a picture; empty if there is none. */
    public val icon: String = "",
    /** The URL of a large picture; empty if there is none. */
    public val image: String = "",
    /** What a tap opens; empty if nothing is said. */
    public val url: String = "",
    /** For the program; empty if there is none. */
    public val category: String = "",
    /** The notification's data, JSON where its type is not another; empty if there is none. */
    public val data: String = "",
    /** Android's notification channel; empty: the program's usual one. */
    public val channelId: String = "",
    /** A sound of the program, or `default`; empty: the channel's. */
    public val sound: String = "",
    /** A message takes the place of one of the same tag that is shown. */
    public val tag: String = id,
    internal val ackToken: String = "",
    internal val trackToken: String = "",
    internal val settle: String = "",
) {
    /** Names the message. */
    override fun toString(): String = "PushMessage($id)"

    internal companion object {
        /** The message of FCM's data; null: it is not one of Godwit's. */
        fun ofData(data: Map<String, String>): PushMessage? {
            val id = data["godwit_id"]?.takeIf { it.isNotEmpty() } ?: return null
            fun field(name: String) = data[name].orEmpty()
            return PushMessage(
                id, field("title"), field("body"), field("icon"), field("image"), field("url"), field("category"), field("data"), field("channel_id"),
                field("sound"), field("tag").ifEmpty { id }, field("godwit_ack"), field("godwit_track"), field("godwit_settle"),
            )
        }

        /** The message of a Web Push payload; null: it is not one of Godwit's. */
        fun ofWebPush(m: JsonMembers): PushMessage? = try {
            val id = m.string("godwit_id").ifEmpty { m.string("id") }
            if (id.isEmpty()) {
                null
            } else {
                PushMessage(
                    id, m.string("title"), m.string("body"), m.string("icon"), m.string("image"),
                    m.members("extra")?.string("url_to_open").orEmpty(), m.string("category"), m.raw("data").orEmpty(),
                    tag = m.string("tag").ifEmpty { id }, ackToken = m.string("godwit_ack"), trackToken = m.string("track"), settle = m.string("godwit_settle"),
                )
            }
        } catch (_: MemberException) {
            null
        }

        fun of(n: Notification) = PushMessage(n.id, n.title, n.body, category = n.category, data = n.text)
    }
}

/** Shows messages on a device. It is called by one thread at a time. */
public interface PushDisplay {
    /** Shows a message, in the place of one of the same tag. Keep [PushMessage.id] with it: [close] names it. */
    public fun show(message: PushMessage)

    /** Takes a message from the screen, unless one of another id has taken its place. */
    public fun close(id: String)
}
