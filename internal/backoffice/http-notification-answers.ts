import { eventStates, testNoticeType } from '#internal/events/index.ts'
import { notificationTypes } from '#internal/tenants/index.ts'
import { described, growingWordOf, idOf, objectOf, orNull, time } from './http-schemas.ts'

const lastNotification = objectOf({
  id: idOf('evt', 'evt_06gw979vs1d9q6mddfvvx375s4'),
  type: growingWordOf([...notificationTypes, testNoticeType], 'latchkey.callback.recovered'),
  state: growingWordOf(eventStates, 'processed'),
  receivedAt: time('2026-11-21T08:12:00.000Z'),
})

/** State of a tenant's notifications. */
export const notificationsState = described(
  'State of its notifications. Present if `spec.notifications` is. Of a URL in the spec only the origin is shown.',
  objectOf({
    state: growingWordOf(['active', 'suspended', 'breaker_open'], 'active'),
    last: described('The latest notification; null if there was none.', orNull(lastNotification)),
  }),
)
