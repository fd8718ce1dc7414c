/** Element with either children or text. */
export interface XmlElement {
  readonly name: string
  readonly attributes: ReadonlyMap<string, string>
  readonly children: readonly XmlElement[]
  /** Text with all references resolved; '' if the element has children. */
  readonly text: string
}

interface Building extends XmlElement {
  readonly children: Building[]
  text: string
}

const depthMax = 64
const elementsMax = 20_000

const declaration = /^\ufeff?<\?xml[^<>]*\?>/
const tokenForm =
  /<(\/?)([A-Za-z_][\w.-]*)((?:\s+[\w:.-]+\s*=\s*(?:"[^"<]*"|'[^'<]*')){0,16})\s*(\/?)>|([^<]+)/y
const attributeForm = /([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g
const reference = /&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(amp|lt|gt|quot|apos));/g
const named: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
const blank = /^[ \t\r\n]*$/

/**
 * Parses the subset of XML (https://www.w3.org/TR/xml/) that notifications use: elements, attributes, text and the five predefined
 * references. Returns undefined for malformed XML and any other construct: document types (and thus entities), comments, CDATA, processing
 * instructions and mixed content; also above 64 levels, 20 000 elements, or 16 attributes per element. Never throws.
 */
export function readXml(text: string): XmlElement | undefined {
  const token = new RegExp(tokenForm)
  token.lastIndex = declaration.exec(text)?.[0].length ?? 0
  // Virtual parent of the root element and of the text around it.
  const outside = element('', '')
  const open = [outside]
  for (let elements = 0; token.lastIndex < text.length; ) {
    const [, closing, name, attributes, empty, chars] = token.exec(text) ?? []
    const inner = open.at(-1)
    if (!inner) return undefined
    if (chars !== undefined) {
      inner.text += chars
    } else if (name === undefined) {
      return undefined
    } else if (closing === '/') {
      if (open.length === 1 || attributes !== '' || empty !== '' || !end(inner, name)) return undefined
      open.pop()
    } else {
      elements += 1
      if (elements > elementsMax || open.length > depthMax) return undefined
      const begun = element(name, attributes ?? '')
      inner.children.push(begun)
      if (empty === '') open.push(begun)
    }
  }
  const [root, second] = outside.children
  return open.length === 1 && blank.test(outside.text) && second === undefined ? root : undefined
}

function element(name: string, attributes: string): Building {
  const values = [...attributes.matchAll(attributeForm)].map(
    ([, key = '', double, single]): [string, string] => [key, double ?? single ?? ''],
  )
  return { name, attributes: new Map(values), children: [], text: '' }
}

/** Returns false for a wrong name, mixed content or an unknown reference. */
function end(ended: Building, name: string): boolean {
  if (ended.name !== name) return false
  if (ended.children.length > 0) {
    const isBlank = blank.test(ended.text)
    ended.text = ''
    return isBlank
  }
  const text = resolved(ended.text)
  if (text === undefined) return false
  ended.text = text
  return true
}

function resolved(raw: string): string | undefined {
  let known = true
  const text = raw.replace(reference, (_whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return named[name] ?? ''
    const point = decimal === undefined ? Number.parseInt(hex ?? '', 16) : Number(decimal)
    known &&= point > 0 && point <= 0x10ffff
    return known ? String.fromCodePoint(point) : ''
  })
  // Refuses a remaining ampersand, which belongs to an unknown reference.
  return known && !raw.replace(reference, '').includes('&') && text.isWellFormed() ? text : undefined
}
