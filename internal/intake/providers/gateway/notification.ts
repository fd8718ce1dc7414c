import { decodeUtf8, type JsonObject } from '../../event-body.ts'
import { readXml, type XmlElement } from './xml.ts'

/** What stands in a notification: text, nothing, a list, or fields. */
type Field = string | null | Field[] | { [name: string]: Field }

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/**
 * Reads a notification: base64 of an XML document whose root is `notification`. Gives its fields under the names that the XML has;
 * undefined for anything else.
 *
 * Every value is the text as it stands, numbers, dates and truth values too: `type` says what the vendor means by it, and what
 * we made of it could be less exact. `type="array"` is a list, `nil="true"` is null, and a name that comes several times is a list.
 */
export function readNotification(payload: string): JsonObject | undefined {
  const packed = payload.replaceAll('\n', '')
  const text = packed !== '' && base64.test(packed) ? decodeUtf8(Buffer.from(packed, 'base64')) : undefined
  const root = text === undefined ? undefined : readXml(text)
  if (root?.name !== 'notification') return undefined
  const fields = fieldOf(root)
  return typeof fields === 'object' && fields !== null && !Array.isArray(fields) ? fields : undefined
}

function fieldOf({ attributes, children, text }: XmlElement): Field {
  if (attributes.get('nil') === 'true') return null
  if (attributes.get('type') === 'array') return children.map(fieldOf)
  if (children.length === 0) return text
  // Without a prototype `__proto__` is a name like any other.
  const fields: { [name: string]: Field } = Object.create(null)
  for (const [name, elements] of Map.groupBy(children, (child) => child.name)) {
    const [first, ...more] = elements.map(fieldOf)
    fields[name] = more.length > 0 ? [first ?? null, ...more] : (first ?? null)
  }
  return fields
}
