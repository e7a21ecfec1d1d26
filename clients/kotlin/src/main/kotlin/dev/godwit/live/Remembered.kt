package dev.godwit.live

import dev.godwit.wire.ClientFrame

/** The newest ids that were added, up to a number. */
internal class NewestIds(private val most: Int) {
    private val ids = LinkedHashSet<String>()

    operator fun contains(id: String): Boolean = id in ids

    fun add(id: String) {
        if (ids.add(id) && ids.size > most) ids.iterator().run { next().also { remove() } }
    }
}

/** The newest answers to notifications, so that one which was lost with its connection can be sent again. */
internal class NewestReplies {
    private val replies = ArrayDeque<ClientFrame.Reply>()

    fun add(reply: ClientFrame.Reply) {
        if (replies.size == MOST) replies.removeFirst()
        replies.addLast(reply)
    }

    fun find(id: String): ClientFrame.Reply? = replies.find { it.id == id }

    private companion object {
        const val MOST = 64 // 4 MB if all have the largest size
    }
}
