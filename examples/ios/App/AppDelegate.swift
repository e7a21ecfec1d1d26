import GodwitPush
import UIKit
import UserNotifications

/// What the app and its extension share.
enum Shared {
  static let group = "group.org.example.rides"
  static let server = URL(string: "https://push.example.org")!
  static let seen = Seen(group: group)!
  static let acks = Acks(server: server, group: group)
}

@main
class AppDelegate: UIResponder, UIApplicationDelegate, UNUserNotificationCenterDelegate {
  func application(_ app: UIApplication, didFinishLaunchingWithOptions: [UIApplication.LaunchOptionsKey: Any]?) -> Bool {
    let center = UNUserNotificationCenter.current()
    center.delegate = self
    // Only a category with this option tells that something was swiped away.
    center.setNotificationCategories([
      UNNotificationCategory(identifier: "godwit", actions: [], intentIdentifiers: [], options: .customDismissAction)
    ])
    center.requestAuthorization(options: [.alert, .sound, .badge]) { _, _ in }
    app.registerForRemoteNotifications()
    Shared.acks.send()  // what could not be sent before
    return true
  }

  /// A message in the background: it takes others back, maybe before they came.
  func application(
    _ app: UIApplication, didReceiveRemoteNotification info: [AnyHashable: Any],
    fetchCompletionHandler done: @escaping (UIBackgroundFetchResult) -> Void
  ) {
    Self.recalled(Message(info)?.recalled ?? []) { done(.noData) }
  }

  /// Takes away what was acknowledged elsewhere, expired or taken back. The live connection's frame `recall` leads here, too.
  static func recalled(_ ids: [String], done: @escaping () -> Void = {}) {
    for id in ids { Shared.seen.settled(id) }
    let center = UNUserNotificationCenter.current()
    center.getDeliveredNotifications { shown in
      center.removeDeliveredNotifications(
        withIdentifiers: shown.filter { n in
          let id = n.request.content.userInfo["godwit_id"] as? String ?? n.request.identifier
          return ids.contains(id) || Shared.seen.state(id) == .settled
        }.map(\.request.identifier))
      done()
    }
  }

  /// The person tapped it or swiped it away: it is over here, and with its token everywhere.
  func userNotificationCenter(
    _ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
    withCompletionHandler done: @escaping () -> Void
  ) {
    let message = Message(response.notification.request.content.userInfo)
    guard let id = message?.id, Shared.seen.settled(id), let token = message?.ackToken else {
      return done()
    }
    let dismissed = response.actionIdentifier == UNNotificationDismissActionIdentifier
    Shared.acks.post(token, dismissed ? "dismissed" : "clicked", done: done)
  }

  /// Shows what came over the live connection, unless push has brought it. The id is the name under which it is replaced.
  static func show(id: String, title: String, body: String) {
    guard Shared.seen.state(id) == .new else { return }
    let content = UNMutableNotificationContent()
    content.title = title
    content.body = body
    content.categoryIdentifier = "godwit"
    content.userInfo = ["godwit_id": id]
    UNUserNotificationCenter.current().add(UNNotificationRequest(identifier: id, content: content, trigger: nil)) { error in
      if error == nil { Shared.seen.shown(id) }
    }
  }
}
