/** A value a line, or what is wrong with the stream. */
export type JsonLine =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'broken'; readonly why: 'not JSON' | 'a line too long' }

const newline = 10

/** Cuts a stream of bytes, as they come, into lines of JSON. */
export class JsonLines {
  readonly #lineBytesMax: number
  #parts: Uint8Array[] = []
  #bytes = 0

  /** @param lineBytesMax a longer line breaks the stream */
  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax
  }

  /** Gives the lines that these bytes end. After a `broken` one nothing more is to be read. */
  push(bytes: Uint8Array): JsonLine[] {
    const lines: JsonLine[] = []
    let from = 0
    for (let to = bytes.indexOf(newline); to >= 0; to = bytes.indexOf(newline, from)) {
      this.#hold(bytes.subarray(from, to))
      from = to + 1
      const line = this.#take()
      if (line !== undefined) lines.push(line)
      if (line?.kind === 'broken') return lines
    }
    this.#hold(bytes.subarray(from))
    if (this.#bytes > this.#lineBytesMax) lines.push({ kind: 'broken', why: 'a line too long' })
    return lines
  }

  #hold(part: Uint8Array): void {
    if (part.length === 0) return
    this.#parts.push(part)
    this.#bytes += part.length
  }

  #take(): JsonLine | undefined {
    const tooLong = this.#bytes > this.#lineBytesMax
    const text = tooLong ? '' : Buffer.concat(this.#parts).toString('utf8')
    this.#parts = []
    this.#bytes = 0
    if (tooLong) return { kind: 'broken', why: 'a line too long' }
    if (text.trim() === '') return undefined
    try {
      return { kind: 'value', value: JSON.parse(text) as unknown }
    } catch {
      return { kind: 'broken', why: 'not JSON' }
    }
  }
}
