import type { EventContent, NoticeType } from '#internal/events/index.ts'
import type { DestinationKind } from '../destination.ts'

/** Unsigned messages for a Slack incoming webhook. */
export const slack: DestinationKind = {
  prepare({ url, allowedCIDRs, timeoutMs }) {
    const headers = { 'content-type': 'application/json', 'user-agent': 'Latchkey' }
    return {
      isSendable: url !== '',
      async send(outbound, { content, signal }) {
        const call = { url, allowedCIDRs, timeoutMs, headers, body: slackMessage(content) }
        return { result: await outbound.send({ ...call, ...(signal && { signal }) }), request: undefined }
      },
    }
  },
}

const factCharsMax = 500

const titles: Readonly<Record<NoticeType, string>> = {
  'latchkey.callback.suspended': ':octagonal_sign: Deliveries to the callback are suspended',
  'latchkey.callback.failing': ':warning: The callback is failing',
  'latchkey.callback.recovered': ':white_check_mark: The callback has recovered',
  'latchkey.limit.near': ':warning: A usage limit is near',
  'latchkey.replay.finished': ':information_source: A replay has finished',
  'latchkey.test': ':information_source: A test of these notifications',
}
const titleOf: ReadonlyMap<string, string> = new Map(Object.entries(titles))

/**
 * Writes a notification as a message for a Slack incoming webhook: a summary, and a block with the facts of the notification, not the event
 * (https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, read 2026-11).
 */
function slackMessage({ type, payload }: Pick<EventContent, 'type' | 'payload'>): string {
  const { tenant, advice, ...facts } = factsOf(payload)
  const title = titleOf.get(type) ?? type
  const summary = `${title} (${nameOf(tenant)})`
  const lines = Object.entries(facts).map(([name, value]) => `*${escaped(name)}*: ${escaped(textOf(value))}`)
  const text = [`*${summary}*`, ...lines, ...(advice === undefined ? [] : [escaped(textOf(advice))])].join(
    '\n',
  )
  const blocks = [{ type: 'section', text: { type: 'mrkdwn', text: text.slice(0, 3_000) } }]
  return JSON.stringify({ text: summary, blocks })
}

function factsOf(payload: string): Readonly<Record<string, unknown>> {
  const parsed: unknown = JSON.parse(payload)
  return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {}
}

function nameOf(tenant: unknown): string {
  const { namespace, name } =
    typeof tenant === 'object' && tenant !== null
      ? { namespace: '', name: '', ...tenant }
      : { namespace: '', name: '' }
  return escaped(`${namespace}/${name}`)
}

function textOf(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.slice(0, factCharsMax)
}

/** Escapes the characters that Slack interprets (https://docs.slack.dev/messaging/formatting-message-text, read 2026-11). */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
