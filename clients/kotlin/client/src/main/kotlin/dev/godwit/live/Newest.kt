package dev.godwit.live

/** The newest that were added, by id, up to a number. */
internal class Newest<T : Any>(private val most: Int) {
    private val all = LinkedHashMap<String, T>()

    operator fun get(id: String): T? = all[id]

    operator fun contains(id: String): Boolean = id in all

    operator fun set(id: String, value: T) {
        if (all.put(id, value) == null && all.size > most) all.remove(all.keys.first())
    }
}
