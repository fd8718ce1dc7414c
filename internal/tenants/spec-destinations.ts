import { isIP } from 'node:net'
import { Type as t } from '@sinclair/typebox'
import { type CallbackRefusal, checkCallbackUrl, portsBlocked } from '#internal/egress/index.ts'
import { type FieldRule, oneOf, ruled, secretRef, strict } from './spec-fields.ts'

// Matches ports over 65535 by their digits, since the CEL expression cannot read the port as a number.
const portsRefused = `${[...portsBlocked].join('|')}|[1-9][0-9]{5,}|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9]`

const isNotRefusedFor = (cause: CallbackRefusal) => (text: string) => {
  const checked = checkCallbackUrl(text)
  return checked.kind !== 'refused' || checked.cause !== cause
}

/** Rules that refuse the same URLs as `checkCallbackUrl` of `egress`, as far as CEL expressions can read a URL. */
const urlRules: readonly FieldRule<string>[] = [
  {
    rule: String.raw`isURL(self) && url(self).getHostname() != '' && !self.matches('[\\\\\\x00-\\x20\\x7f]')`,
    message: 'must be a URL such as https://hooks.example/latchkey',
    holds: isNotRefusedFor('malformed'),
  },
  {
    rule: "!isURL(self) || url(self).getScheme() in ['https', 'http']",
    message: 'must be an https URL',
    holds: isNotRefusedFor('scheme'),
  },
  {
    rule: "!self.matches('^[^/]*//[^/?#]*@')",
    message: 'must not contain credentials: verify the signature of deliveries instead',
    holds: isNotRefusedFor('credentials'),
  },
  {
    rule: "!self.contains('#')",
    message: 'must not have a fragment, which is never sent',
    holds: isNotRefusedFor('fragment'),
  },
  {
    rule: `!self.matches('^[^/]*//[^/?#]*:0*(${portsRefused})([/?]|$)')`,
    message: 'must not use a port of another protocol, nor one over 65535',
    holds: isNotRefusedFor('port'),
  },
]

const schemeRule: FieldRule<{ url?: string; allowedCIDRs: string[] }> = {
  rule: "!isURL(self.url) || url(self.url).getScheme() != 'http' || size(self.allowedCIDRs) > 0",
  message: 'must be https, unless allowedCIDRs lists the address that http may reach',
  fieldPath: '.url',
  holds: ({ url = '', allowedCIDRs }) => {
    const checked = checkCallbackUrl(url)
    return checked.kind === 'refused' || checked.url.scheme === 'https' || allowedCIDRs.length > 0
  },
}

function isCidr(text: string): boolean {
  const [address, prefix, ...rest] = text.split('/')
  if (address === undefined || prefix === undefined || rest.length > 0) return false
  const family = isIP(address)
  if (family === 0 || address.includes('%') || !/^(0|[1-9][0-9]{0,2})$/.test(prefix)) return false
  // An IPv4-mapped IPv6 network is refused, because it would be compared as IPv6 and never match.
  if (family === 6 && URL.parse(`http://[${address}]/`)?.hostname.startsWith('[::ffff:')) return false
  return Number(prefix) <= (family === 4 ? 32 : 128)
}

const unitMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 }

/** Converts a duration such as `90s`, `1h30m` or `250ms` to milliseconds. Returns undefined for any other text. */
export function parseDurationMs(text: string): number | undefined {
  if (!/^([0-9]{1,12}(ms|s|m|h))+$/.test(text)) return undefined
  let totalMs = 0
  for (const [, count, unit] of text.matchAll(/([0-9]+)(ms|s|m|h)/g)) {
    totalMs += Number(count) * (unitMs[unit ?? ''] ?? Number.NaN)
  }
  return totalMs
}

const timeoutSeconds = t.Integer({
  minimum: 1,
  maximum: 30,
  default: 15,
  description: 'Time limit of one delivery attempt, including the connection.',
})

const allowedCIDRs = t.Array(
  ruled(t.String({ minLength: 3, maxLength: 43, description: 'A network such as 10.20.0.0/16.' }), {
    rule: 'isCIDR(self)',
    message: 'must be a CIDR such as 10.20.0.0/16',
    holds: isCidr,
  }),
  {
    maxItems: 32,
    uniqueItems: true,
    default: [],
    description: 'Non-public addresses that may be called, as far as the platform permits them.',
  },
)

const dayMs = 86_400_000

/** Default retry schedule of a callback: the pause between the previous attempt and each attempt. */
export const retryScheduleDefault = ['0s', '5s', '5m', '30m', '2h', '5h', '10h', '14h', '20h', '24h'] as const

export const callback = ruled(
  strict(
    {
      url: ruled(
        t.String({
          minLength: 1,
          maxLength: 2048,
          description: 'URL that receives events: https, or http to addresses in allowedCIDRs.',
        }),
        ...urlRules,
      ),
      timeoutSeconds,
      allowedCIDRs,
      signingSecretRef: t.Optional(
        secretRef(
          'Secret whose 1 to 3 values (whsec_<base64>) all sign. Generated as <tenant>-callback when absent.',
        ),
      ),
      retryOnRedelivery: t.Boolean({
        default: false,
        description:
          'true: when a provider sends an event again whose delivery has failed, one new delivery cycle begins, except while Postgres is unavailable (the redelivery is answered 202). false: such a duplicate changes nothing.',
      }),
      retry: strict(
        {
          schedule: t.Array(
            ruled(
              t.String({
                maxLength: 32,
                // Allows enough digits of each unit for a day. More digits would overflow CEL's duration().
                pattern: '^([0-9]{1,8}ms|[0-9]{1,5}s|[0-9]{1,4}m|[0-9]{1,2}h)+$',
                description: 'A duration such as 30m.',
              }),
              {
                rule: "duration(self) <= duration('24h')",
                message: 'must be a duration from 0s to 24h',
                holds: (wait) => (parseDurationMs(wait) ?? Number.POSITIVE_INFINITY) <= dayMs,
              },
            ),
            {
              minItems: 1,
              maxItems: 20,
              default: [...retryScheduleDefault],
              description: 'Pause before each attempt since the previous one, each 0s to 24h.',
            },
          ),
          jitterPercent: t.Integer({
            minimum: 0,
            maximum: 50,
            default: 20,
            description: 'Random deviation from the schedule, in both directions.',
          }),
        },
        { default: {}, description: 'Retry schedule of failed deliveries.' },
      ),
    },
    { description: 'Receiver of events. Absent: events wait until a subscription acknowledges them.' },
  ),
  schemeRule,
)

/** Types of notifications: events about a tenant's operation, which are sent to its `spec.notifications`. */
export const notificationTypes = [
  'latchkey.callback.suspended',
  'latchkey.callback.failing',
  'latchkey.callback.recovered',
  'latchkey.limit.near',
  'latchkey.replay.finished',
] as const
/** Type of a notification; one of `notificationTypes`. */
export type NotificationType = (typeof notificationTypes)[number]

/** Formats of notifications. Each has a kind of destinations: `event` is the kind `webhook`, and any other has its kind's name. */
export const notificationFormats = {
  event: {
    title: 'event',
    isSigned: true,
    description: 'signed events, like those of the callback',
  },
  slack: {
    title: 'Slack message',
    isSigned: false,
    description: 'unsigned messages for a Slack webhook',
  },
} as const satisfies Readonly<
  Record<string, { readonly title: string; readonly isSigned: boolean; readonly description: string }>
>
const formatNames = Object.keys(notificationFormats) as (keyof typeof notificationFormats)[]
const signedFormats = formatNames.filter((name) => notificationFormats[name].isSigned)
const unsignedFormats = formatNames.filter((name) => !notificationFormats[name].isSigned)
const quotedNames = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(' or ')

export const notifications = ruled(
  strict(
    {
      url: t.Optional(
        ruled(
          t.String({
            minLength: 1,
            maxLength: 2048,
            description: 'URL that receives notifications: https, or http to addresses in allowedCIDRs.',
          }),
          ...urlRules,
        ),
      ),
      urlSecretRef: t.Optional(
        secretRef(
          'Secret whose only value is the URL, for a URL that is itself a secret, such as that of a Slack webhook.',
        ),
      ),
      format: oneOf(formatNames, {
        default: 'event',
        description: formatNames
          .map((name) => `${name}: ${notificationFormats[name].description}.`)
          .join(' '),
      }),
      signingSecretRef: t.Optional(
        secretRef(
          'Secret whose 1 to 3 values (whsec_<base64>) all sign. Generated as <tenant>-notifications when absent.',
        ),
      ),
      events: t.Optional(
        t.Array(oneOf(notificationTypes, { description: 'A type of notification.' }), {
          minItems: 1,
          maxItems: notificationTypes.length,
          uniqueItems: true,
          description: 'Types of notifications to send. Absent: all types.',
        }),
      ),
      timeoutSeconds,
      allowedCIDRs,
    },
    {
      description:
        'Receiver of notifications about this tenant’s operation, which never go to the callback. Absent: there are none.',
    },
  ),
  {
    rule: 'has(self.url) != has(self.urlSecretRef)',
    message: 'needs either url or urlSecretRef',
    reason: 'FieldValueRequired',
    holds: ({ url, urlSecretRef }) => (url === undefined) !== (urlSecretRef === undefined),
  },
  {
    rule: `!has(self.signingSecretRef) || ${signedFormats.map((name) => `self.format == '${name}'`).join(' || ')}`,
    message: `needs the format ${quotedNames(signedFormats)}: messages of the format ${quotedNames(unsignedFormats)} are not signed`,
    fieldPath: '.signingSecretRef',
    reason: 'FieldValueForbidden',
    holds: ({ signingSecretRef, format }) =>
      signingSecretRef === undefined || notificationFormats[format].isSigned,
  },
  { ...schemeRule, rule: `!has(self.url) || ${schemeRule.rule}` },
)
