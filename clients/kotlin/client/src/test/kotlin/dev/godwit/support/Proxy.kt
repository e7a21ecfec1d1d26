package dev.godwit.support

import java.io.IOException
import java.net.InetAddress
import java.net.ServerSocket
import java.net.Socket
import java.util.Collections
import kotlin.concurrent.thread

/** A network between client and server that a test can cut. */
class Proxy(target: String) : AutoCloseable {
    /** What a connection does from now on. */
    enum class Fault {
        /** Nothing passes in either direction, and nobody is told: a phone in a tunnel. */
        SILENCE,

        /** Nothing passes from the client to the server, while the server's frames come. */
        HALF_OPEN,

        /** Both sides get a reset. */
        RESET,
    }

    private val host = target.substringBeforeLast(':')
    private val port = target.substringAfterLast(':').toInt()
    private val listening = ServerSocket(0, BACKLOG, InetAddress.getByName("127.0.0.1"))
    private val pairs = Collections.synchronizedList(ArrayList<Pair>())

    /** New connections are refused: there is no network. */
    @Volatile var down = false

    val url = "http://127.0.0.1:${listening.localPort}"

    init {
        thread(isDaemon = true, name = "proxy") { accept() }
    }

    private fun accept() {
        while (!listening.isClosed) {
            val client = try {
                listening.accept()
            } catch (_: IOException) {
                return
            }
            if (down) {
                reset(client)
                continue
            }
            try {
                pairs += Pair(client, Socket(host, port))
            } catch (_: IOException) {
                reset(client)
            }
        }
    }

    /** Has all present connections fail in a way. */
    fun fault(fault: Fault) {
        synchronized(pairs) {
            for (p in pairs) p.fault(fault)
            if (fault == Fault.RESET) pairs.clear()
        }
    }

    private class Pair(private val client: Socket, private val server: Socket) {
        @Volatile private var toServer = true

        @Volatile private var toClient = true

        init {
            thread(isDaemon = true, name = "proxy up") { copy(client, server) { toServer } }
            thread(isDaemon = true, name = "proxy down") { copy(server, client) { toClient } }
        }

        private fun copy(from: Socket, to: Socket, passes: () -> Boolean) {
            val buffer = ByteArray(BUFFER)
            try {
                while (true) {
                    val n = from.getInputStream().read(buffer)
                    if (!passes()) continue // what a dead network is given is lost; TCP learns nothing of it
                    if (n < 0) break
                    to.getOutputStream().write(buffer, 0, n)
                }
            } catch (_: IOException) {
                // One side is gone.
            }
            if (passes()) to.close()
        }

        fun fault(fault: Fault) {
            when (fault) {
                Fault.SILENCE -> {
                    toServer = false
                    toClient = false
                }
                Fault.HALF_OPEN -> toServer = false
                Fault.RESET -> {
                    reset(client)
                    reset(server)
                }
            }
        }
    }

    override fun close() {
        listening.close()
        fault(Fault.RESET)
    }

    private companion object {
        const val BACKLOG = 50
        const val BUFFER = 16 shl 10

        fun reset(socket: Socket) {
            try {
                socket.setSoLinger(true, 0)
                socket.close()
            } catch (_: IOException) {
                // It is closed.
            }
        }
    }
}
