import XCTest

@testable import GodwitPush

/// Reads api/vectors/apns.json: the payloads that the server makes.
final class VectorsTests: XCTestCase {
  func testMessagesAreReadAsTheVectorsSay() throws {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appendingPathComponent("../../../../api/vectors/apns.json").standardized
    let root = try XCTUnwrap(JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
    for one in try XCTUnwrap(root["cases"] as? [[String: Any]]) {
      let name = one["name"] as? String ?? ""
      let payload = try XCTUnwrap(one["payload"] as? [String: Any], name)
      let message = Message(payload)
      guard let read = one["read"] as? [String: Any] else {
        XCTAssertNil(message, name)
        continue
      }
      XCTAssertEqual(message?.id, read["id"] as? String, name)
      XCTAssertEqual(message?.ackToken, read["ack"] as? String, name)
      XCTAssertEqual(message?.settlesWhenShown, read["settles_when_shown"] as? Bool ?? false, name)
      XCTAssertEqual(message?.trackToken, read["track"] as? String, name)
      XCTAssertEqual(message?.url, read["url"] as? String, name)
      XCTAssertEqual(message?.image, read["image"] as? String, name)
      XCTAssertEqual(message?.recalled, read["recalled"] as? [String] ?? [], name)
      XCTAssertEqual(message?.badge, read["badge"] as? Int, name)
    }
  }
}
