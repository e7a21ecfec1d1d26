@file:JvmName("Messaging")

package dev.godwit.messaging

import dev.godwit.ListenOptions
import dev.godwit.live.Part
import dev.godwit.messaging.requests.Answering

/** The objects to follow. Only one listener at a time may use them. */
public var ListenOptions.objects: Objects?
    get() = part<Objects.Following>()?.objects
    set(value) = replace<Objects.Following>(value?.following)

/** The topics to receive. Only one listener at a time may use them. */
public var ListenOptions.topics: Topics?
    get() = part<Topics.Receiving>()?.topics
    set(value) = replace<Topics.Receiving>(value?.receiving)

/** Answers requests to this recipient, or to [subjects]. Up to [ListenOptions.window] requests are answered at once. */
public var ListenOptions.requests: RequestHandler?
    get() = part<Answering>()?.handler
    set(value) {
        answering.handler = value
    }

/** Subjects whose requests this session answers, each may be a pattern (`orders.>`). It takes the role worker or the claim `serve`. */
public var ListenOptions.subjects: List<String>
    get() = part<Answering>()?.subjects.orEmpty()
    set(value) {
        answering.subjects = value
    }

/** Each request goes to one of the workers with the same queue; empty: the usual queue. */
public var ListenOptions.queue: String
    get() = part<Answering>()?.queue.orEmpty()
    set(value) {
        answering.queue = value
    }

private val ListenOptions.answering: Answering get() = part<Answering>() ?: Answering().also(parts::add)

private inline fun <reified P : Part> ListenOptions.part(): P? = parts.firstNotNullOfOrNull { it as? P }

private inline fun <reified P : Part> ListenOptions.replace(part: P?) {
    parts.removeAll { it is P }
    if (part != null) parts += part
}
