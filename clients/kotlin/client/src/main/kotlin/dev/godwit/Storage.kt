package dev.godwit

import java.io.File
import java.io.FileNotFoundException
import java.io.FileOutputStream
import java.io.IOException

/**
 * Keeps one small document, such as the registrations of objects or the ids of a [Deduplicator]. Implement it over DataStore or Room to have
 * the document there. It is called by one thread at a time, where blocking is allowed.
 */
public interface Storage {
    /** Returns the document; null: there is none. */
    @Throws(IOException::class)
    public fun read(): ByteArray?

    /** Replaces the document. After a kill it is the old one or the new one, never a mixture. */
    @Throws(IOException::class)
    public fun write(content: ByteArray)

    /** Puts a document aside that cannot be understood, so that people can examine it, as far as that is possible. */
    @Throws(IOException::class)
    public fun setAside()
}

/** Keeps a document as long as the program runs. */
public class MemoryStorage : Storage {
    @Volatile private var content: ByteArray? = null

    override fun read(): ByteArray? = content

    override fun write(content: ByteArray) {
        this.content = content
    }

    override fun setAside() {
        content = null
    }
}

/** Keeps a document in a file, for one program at a time. */
public class FileStorage(private val file: File) : Storage {
    override fun read(): ByteArray? = try {
        file.readBytes()
    } catch (e: FileNotFoundException) {
        if (file.exists()) throw e
        null
    }

    override fun write(content: ByteArray) {
        val beside = File(file.path + ".new")
        FileOutputStream(beside).use {
            it.write(content)
            it.fd.sync()
        }
        if (!beside.renameTo(file)) throw IOException("write $file: cannot rename $beside to it")
    }

    override fun setAside() {
        if (!file.renameTo(File(file.path + ".bad"))) throw IOException("set aside $file, which cannot be understood: cannot rename it")
    }

    /** Names the file. */
    override fun toString(): String = file.path
}
