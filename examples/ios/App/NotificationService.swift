import GodwitPush
import UserNotifications

/// The notification service extension: iOS asks it before it shows a message, whether the app runs or not.
class NotificationService: UNNotificationServiceExtension {
  private var handler: ((UNNotificationContent) -> Void)?
  private var content: UNMutableNotificationContent?

  override func didReceive(_ request: UNNotificationRequest, withContentHandler handler: @escaping (UNNotificationContent) -> Void) {
    let content = request.content.mutableCopy() as! UNMutableNotificationContent
    self.handler = handler
    self.content = content
    guard let message = Message(content.userInfo), let id = message.id else { return handler(content) }  // not from Godwit
    content.categoryIdentifier = content.categoryIdentifier.isEmpty ? "godwit" : content.categoryIdentifier

    switch Shared.seen.state(id) {
    case .settled:
      // Acknowledged or recalled before it came. Without the entitlement for filtering iOS shows it all the same: quietly then,
      // and the app takes it away when it runs. With the entitlement: return handler(UNNotificationContent()).
      quieten(content)
      return handler(content)
    case .shown:
      // The app has shown it from its live connection, under its id: this one takes its place.
      UNUserNotificationCenter.current().removeDeliveredNotifications(withIdentifiers: [id])
      quieten(content)
      return handler(content)
    case .new:
      Shared.seen.shown(id)
    }
    guard message.settlesWhenShown, let token = message.ackToken else {
      return handler(content)
    }
    Shared.acks.post(token, "shown") { handler(content) }  // to be shown was said to be enough when it was published
  }

  private func quieten(_ content: UNMutableNotificationContent) {
    content.sound = nil
    content.interruptionLevel = .passive
  }

  /// iOS waits half a minute at most.
  override func serviceExtensionTimeWillExpire() {
    if let content { handler?(content) }
  }
}
