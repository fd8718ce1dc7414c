/** The first line of an answer, and its header fields. */
export interface AnswerHead {
  readonly status: number
  /** The first value of each field, by its name in lower case. */
  readonly fields: ReadonlyMap<string, string>
}

/** A head with what it says about the bytes behind it, which nobody has judged yet. */
export interface ParsedHead extends AnswerHead {
  /** `Content-Length` as given, several with commas between; undefined when there is none. */
  readonly length: string | undefined
  /** `Transfer-Encoding`, likewise. */
  readonly transferCoding: string | undefined
  /** The far side leaves the connection open, if the answer has an end of its own. */
  readonly isKept: boolean
}

const statusLine = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [^\0\r\n]*)?$/
const folded = /\r\n[ \t]/
const fieldLine = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\0\r\n]*)$/

/**
 * Takes a head apart, without its empty line (RFC 9112, 3 to 5). Undefined when it is none: a first line of another protocol, a
 * field without a name, an end of line or NUL within a line. Fields that are folded over lines are unfolded.
 */
export function parseHead(text: string): ParsedHead | undefined {
  const unfolded = folded.test(text) ? text.replaceAll(/\r\n[ \t]+/g, ' ') : text
  const [first = '', ...lines] = unfolded.split('\r\n')
  const [, minor, status] = statusLine.exec(first) ?? []
  if (status === undefined) return undefined
  const fields = new Map<string, string>()
  let length: string | undefined
  let transferCoding: string | undefined
  for (const line of lines) {
    const [, given, value] = fieldLine.exec(line) ?? []
    if (given === undefined || value === undefined) return undefined
    const name = given.toLowerCase()
    const trimmed = value.trimEnd()
    if (name === 'content-length') length = joined(length, trimmed)
    else if (name === 'transfer-encoding') transferCoding = joined(transferCoding, trimmed)
    if (!fields.has(name)) fields.set(name, trimmed)
  }
  const connection = (fields.get('connection') ?? '').toLowerCase()
  const isKept = minor === '1' ? !/\bclose\b/.test(connection) : /\bkeep-alive\b/.test(connection)
  return { status: Number(status), fields, length, transferCoding, isKept }
}

function joined(before: string | undefined, value: string): string {
  return before === undefined ? value : `${before},${value}`
}
