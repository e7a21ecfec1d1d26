package dev.godwit.messaging

import dev.godwit.ListenOptions
import dev.godwit.Storage
import dev.godwit.live.Clock
import dev.godwit.live.Due
import dev.godwit.live.Listener
import dev.godwit.live.Part
import dev.godwit.live.receiveWithin
import dev.godwit.messaging.objects.ObjectKey
import dev.godwit.messaging.objects.ObjectState
import dev.godwit.messaging.objects.Owner
import dev.godwit.messaging.objects.Registrations
import dev.godwit.wire.ServerFrame
import dev.godwit.wire.requireName
import dev.godwit.wire.requireObject
import kotlinx.coroutines.CoroutineDispatcher
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.channels.Channel
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.MutableStateFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.sync.Mutex
import kotlinx.coroutines.sync.withLock
import kotlinx.coroutines.withContext
import java.io.IOException

/**
 * The registrations of a recipient's device. Put them into [ListenOptions.objects]: the listener keeps them in agreement with the server.
 * Registering and unregistering work at any time, connected or not, on any thread.
 *
 * A handler gets versions that only grow, not every one of them: after several changes while the client was away or busy it gets only the
 * latest. Handlers run one at a time, and only while a listener runs.
 *
 * With a named device the server keeps the registrations and acknowledged versions. Without one they end with the session, and the next session
 * registers again.
 */
public class Objects internal constructor(
    internal val group: String,
    private val storage: Storage?,
    private val clock: Clock,
    private val blocking: CoroutineDispatcher = Dispatchers.IO,
) {
    /**
     * Returns the registrations of [group]: those in [storage], or none. With a storage, registrations and handled versions survive a restart of
     * the program. A stored document that cannot be understood is set aside, and the client begins without state.
     *
     * @throws IOException if the storage cannot be read, or was written by a later version
     */
    @JvmOverloads
    @Throws(IOException::class)
    public constructor(group: String, storage: Storage? = null) : this(group, storage, Clock())

    private val lock = Any()
    private val registrations = Registrations(group) // and the following: with the lock held
    private var owner: Owner? = null
    private var listener: Listener? = null // is told of changes to send; null: none runs
    private var saved = 0L // the revision that is stored
    private val work = Channel<Unit>(Channel.CONFLATED) // has an element when there may be something to handle
    private val moved = MutableStateFlow(0L)
    private val saving = Mutex()

    /** Called at each change of a registration's status, by the coroutine that handles signals. */
    @Volatile public var onChange: ((ObjectStatus) -> Unit)? = null

    init {
        requireName("follow objects: group", group)
        storage?.let(ObjectState::read)?.let {
            it.addTo(registrations)
            owner = it.owner
        }
    }

    /**
     * Requests the latest version of objects, now and at every change. A name is that of an object in the group, or `group/object`. If an object is
     * registered already, the new handler replaces the old one. After a restart with a storage, signals wait until their object has a handler again.
     */
    public fun register(vararg names: String, handler: SignalHandler) {
        val keys = names.map { key("register", it) }
        update { for (key in keys) registrations.want(key, handler) }
    }

    /** Ends registrations. The handler gets no further signals of these objects, even before the server has processed it. */
    public fun unregister(vararg names: String) {
        val keys = names.map { key("unregister", it) }
        update { for (key in keys) registrations.drop(key) }
    }

    private fun key(what: String, name: String): ObjectKey {
        val key = if ('/' in name) ObjectKey(name.substringBefore('/'), name.substringAfter('/')) else ObjectKey(group, name)
        requireObject(what, key.group, key.name)
        return key
    }

    /** The state of an object's registration. */
    public fun status(name: String): ObjectStatus {
        val key = key("status", name)
        return synchronized(lock) { registrations.entries[key]?.view() }
            ?: ObjectStatus(key.group, key.name, RegistrationStatus.UNREGISTERED, 0, false, null)
    }

    /** All registrations, ordered by group and name. */
    public fun list(): List<ObjectStatus> = synchronized(lock) { registrations.entries.values.sortedBy { it.key }.map { it.view() } }

    /** Waits until client and server agree on every registration; those refused for good count as agreed. It takes a running listener. */
    public suspend fun settled() {
        moved.first { synchronized(lock) { agreed() } }
    }

    private fun agreed() = registrations.summarised && !registrations.reset && registrations.entries.values.none {
        it.status == RegistrationStatus.PENDING_REGISTRATION || it.status == RegistrationStatus.PENDING_UNREGISTRATION
    }

    /** Changes the registrations and tells the session and the handlers. */
    private fun update(change: () -> Unit) {
        val told = synchronized(lock) {
            change()
            listener
        }
        moved.moveOn()
        told?.wakeUp()
        work.trySend(Unit)
    }

    private fun attach(to: Listener) = synchronized(lock) {
        check(listener == null) { "listen: the objects are used by another listener" }
        val who = Owner(to.credentials.app, to.credentials.recipient, to.options.device)
        check(storage == null || owner == null || owner == who) { "listen: $storage is the state of $owner, not of $who" }
        owner = who
        listener = to
    }

    /** Handles the signals that wait and returns when to try again. */
    private suspend fun handleAll(to: Listener): Long {
        while (true) {
            val changes = synchronized(lock) { registrations.changes.toList().also { registrations.changes.clear() } }
            onChange?.let { changes.forEach(it) }
            val next = synchronized(lock) { registrations.signals.next(clock.now()) } ?: return synchronized(lock) { registrations.signals.retryAt }
            var failure: Throwable? = null
            try {
                next.registration.handler?.handle(next.signal)
            } catch (e: Throwable) {
                failure = e
            }
            update { registrations.signals.handled(next, failure != null, clock.now()) }
            currentCoroutineContext().ensureActive() // a CancellationException may be the handler's own, as of a withTimeout
            failure?.let { to.reported(it) }
        }
    }

    /** Stores what has changed. What cannot be stored is reported, and stored with the next change, or when the listener ends. */
    private suspend fun save(to: Listener) {
        val storage = storage ?: return
        try {
            withContext(NonCancellable + blocking) {
                saving.withLock {
                    val (state, revision) = synchronized(lock) { ObjectState.of(registrations, owner) to registrations.revision }
                    if (revision == saved) return@withLock
                    storage.write(state.encode())
                    saved = revision
                }
            }
        } catch (e: IOException) {
            to.reported(e)
        }
    }

    /** Has a listener follow these objects. */
    internal val following = Following()

    internal inner class Following : Part() {
        val objects: Objects get() = this@Objects

        override val group: String get() = objects.group

        override fun check(options: ListenOptions) {
            require(options.group.isEmpty() || options.group == group) { "listen: the session's group is ${options.group}, its objects' is $group" }
        }

        override suspend fun attach(listener: Listener) = attach(to = listener)

        override suspend fun detach() {
            val from = synchronized(lock) {
                registrations.lost()
                listener.also { listener = null }
            }
            from?.let { save(it) }
        }

        override suspend fun run() {
            val to = checkNotNull(listener)
            while (true) {
                val again = handleAll(to)
                save(to)
                if (again == Long.MAX_VALUE) work.receive() else work.receiveWithin(again - clock.now())
            }
        }

        override fun digest(): String = synchronized(lock) { registrations.digestOfPing() }

        override fun due(last: Boolean, pings: Int): Due = synchronized(lock) { registrations.take(clock.now(), last) }

        override fun welcomed(digest: String) = update { registrations.welcomed(digest, clock.now()) }

        override fun lost() = update { registrations.lost() }

        override fun take(frame: ServerFrame, pongs: Int): Boolean {
            val now = clock.now()
            when (frame) {
                is ServerFrame.Signalled -> update { registrations.signals.take(frame.signal, now) }
                is ServerFrame.Registered -> update { registrations.registered(frame, now) }
                is ServerFrame.RegistrationFailed -> update { registrations.failed(frame, now) }
                is ServerFrame.Pong -> update { registrations.compare(frame.digest, now) }
                is ServerFrame.Welcomed -> update { registrations.compare(frame.welcome.digest, now) } // of a renewed hello
                else -> return false
            }
            return true
        }
    }
}
