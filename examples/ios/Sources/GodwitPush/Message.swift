import Foundation

/// What a payload of Godwit says beside what iOS shows by itself. The vectors in api/vectors/apns.json have its forms.
public struct Message: Equatable {
  /// The same on every attempt and on every way that a notification takes. nil: the payload shows nothing.
  public var id: String?
  /// Acknowledges without a signed-in user.
  public var ackToken: String?
  /// To be shown is enough to acknowledge it.
  public var settlesWhenShown = false
  /// Reports shown, clicked and dismissed to `/v1/track`.
  public var trackToken: String?
  public var url: String?
  public var image: String?
  /// Ids of notifications that were taken back.
  public var recalled: [String] = []
  /// Set if the payload only tells the number on the icon, which the system has set.
  public var badge: Int?

  /// nil: the payload is not Godwit's.
  public init?(_ info: [AnyHashable: Any]) {
    id = info["godwit_id"] as? String
    ackToken = info["godwit_ack"] as? String
    settlesWhenShown = info["godwit_settle"] as? String == "shown"
    trackToken = info["godwit_track"] as? String
    url = info["url"] as? String
    image = info["image"] as? String
    recalled = info["godwit_recall"] as? [String] ?? []
    badge = info["godwit_badge"] as? Int
    if id == nil && recalled.isEmpty && badge == nil { return nil }
  }
}
