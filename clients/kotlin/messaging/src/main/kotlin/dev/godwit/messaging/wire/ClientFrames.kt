package dev.godwit.messaging.wire

import dev.godwit.wire.ClientFrame
import dev.godwit.wire.FrameWriter

internal class Register(val objects: List<String>, val group: String = "", val reset: Boolean = false, val more: Boolean = false) : ClientFrame(4, "register") {
    override fun writeTo(out: FrameWriter) {
        out.texts(1, "objects", objects)
        out.text(2, "group", group)
        out.truth(3, "reset", reset)
        out.truth(4, "more", more)
    }
}

internal class Unregister(val objects: List<String>, private val group: String = "") : ClientFrame(5, "unregister") {
    override fun writeTo(out: FrameWriter) {
        out.texts(1, "objects", objects)
        out.text(2, "group", group)
    }
}

internal class ObjectAck(val name: String, private val group: String, val version: Long) : ClientFrame(6, "object_ack") {
    override fun writeTo(out: FrameWriter) {
        out.text(1, "object", name)
        out.text(2, "group", group)
        out.version(3, "version", version)
    }
}

internal class Subscribe(topics: List<String>, queue: String = "") : Patterns(7, "subscribe", "topics", topics, queue)

internal class Unsubscribe(topics: List<String>, queue: String = "") : Patterns(8, "unsubscribe", "topics", topics, queue)

internal class Serve(subjects: List<String>, queue: String = "") : Patterns(9, "serve", "subjects", subjects, queue)

internal class Unserve(subjects: List<String>, queue: String = "") : Patterns(10, "unserve", "subjects", subjects, queue)

internal abstract class Patterns(number: Int, name: String, private val what: String, private val patterns: List<String>, private val queue: String) :
    ClientFrame(number, name) {
    override fun writeTo(out: FrameWriter) {
        out.texts(1, what, patterns)
        out.text(2, "queue", queue)
    }
}
