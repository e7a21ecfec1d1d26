import Foundation

/// Remembers the last 500 notifications that something happened to, so that one which comes over the live connection and by
/// push is shown once. Its rules are those of api/vectors/push.json, its file is that of Godwit's Deduplicator. App and
/// extension are two processes: the file lies in their app group, and each call reads it and writes it whole.
public struct Seen {
  private struct Entry: Codable {
    var id: String
    var settled: String?  // RFC 3339; nil: it is shown
  }

  private struct Kept: Codable {
    var format = 1
    var ids: [Entry] = []  // the newest is last
  }

  private let file: URL

  /// `group` is the app group that app and extension share. nil: the app has no such group.
  public init?(group: String) {
    guard let folder = FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: group) else { return nil }
    file = folder.appendingPathComponent("godwit-seen.json")
  }

  public init(file: URL) { self.file = file }

  public enum State { case new, shown, settled }

  public func state(_ id: String) -> State { state(id, in: read(file)) }

  /// Keeps that it is shown.
  public func shown(_ id: String) {
    change { kept in
      if state(id, in: kept) == .new { add(Entry(id: id), to: &kept) }
    }
  }

  /// Keeps that it was acknowledged or recalled, even before it came. True: it was shown until now.
  @discardableResult
  public func settled(_ id: String) -> Bool {
    var before = State.new
    change { kept in
      before = state(id, in: kept)
      if before != .settled { add(Entry(id: id, settled: Self.time.string(from: Date())), to: &kept) }
    }
    return before == .shown
  }

  private func state(_ id: String, in kept: Kept) -> State {
    guard let e = kept.ids.first(where: { $0.id == id }) else { return .new }
    guard let settled = e.settled else { return .shown }
    guard let at = Self.time.date(from: settled) else { return .new }
    return Date() < at.addingTimeInterval(86_400) ? .settled : .new  // after a day an id may be published anew
  }

  private func add(_ e: Entry, to kept: inout Kept) {
    kept.ids.removeAll { $0.id == e.id }
    kept.ids.append(e)
    kept.ids.removeFirst(max(0, kept.ids.count - 500))
  }

  // A file that cannot be read is as good as none: at worst something is shown twice.
  private func read(_ url: URL) -> Kept {
    (try? JSONDecoder().decode(Kept.self, from: Data(contentsOf: url))) ?? Kept()
  }

  private func change(_ make: (inout Kept) -> Void) {
    NSFileCoordinator().coordinate(writingItemAt: file, options: .forReplacing, error: nil) { url in
      var kept = read(url)
      make(&kept)
      try? JSONEncoder().encode(kept).write(to: url, options: [.atomic, .completeFileProtectionUntilFirstUserAuthentication])
    }
  }

  private static let time: ISO8601DateFormatter = {
    let f = ISO8601DateFormatter()
    f.formatOptions = [.withInternetDateTime, .withFractionalSeconds]
    return f
  }()
}
