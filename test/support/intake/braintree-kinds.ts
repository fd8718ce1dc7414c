import { readFileSync } from 'node:fs'
import type { WebhookNotificationKind } from 'braintree'

/** Every kind of notification in Braintree's SDK. The SDK does not export the list. */
export const braintreeKinds: readonly WebhookNotificationKind[] = [
  ...new Set(
    readFileSync(
      Bun.resolveSync('braintree/lib/braintree/webhook_notification.js', import.meta.dir),
      'utf8',
    ).matchAll(/^ {2}\w+:\s+"([a-z_]+)",$/gm),
  ),
].map(([, kind = '']) => kind as WebhookNotificationKind)
