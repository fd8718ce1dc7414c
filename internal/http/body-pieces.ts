/** Largest page, in bytes. */
const pageBytes = 16 * 1024
const firstPageBytes = 1024

/**
 * Bytes in the order of their arrival, small pieces gathered in pages. Bun hands on each piece as the caller cut it: kept like
 * that, pieces of a byte take a hundred times the memory of their bytes (Bun 1.4.5, 2026-11).
 */
export class Pages {
  readonly #full: Uint8Array[] = []
  #page = new Uint8Array(0)
  #pageUsed = 0
  readonly #bytesMax: number
  length = 0
  /** Memory that the pages take, in bytes: at most twice their length and 1 KiB, and at most `bytesMax`. */
  held = 0

  /** @param bytesMax of all that is added */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  add(bytes: Uint8Array): void {
    this.length += bytes.byteLength
    if (bytes.byteLength >= pageBytes) {
      this.#endPage()
      this.#full.push(bytes)
      this.held += bytes.byteLength
      return
    }
    const fitting = bytes.subarray(0, this.#page.byteLength - this.#pageUsed)
    this.#page.set(fitting, this.#pageUsed)
    this.#pageUsed += fitting.byteLength
    if (fitting.byteLength < bytes.byteLength) this.#beginPage(bytes.subarray(fitting.byteLength))
  }

  /** Returns all bytes: a copy, unless they are one page. */
  join(): Uint8Array {
    this.#endPage()
    const [only] = this.#full
    return only && this.#full.length === 1 ? only : Buffer.concat(this.#full, this.length)
  }

  /** Pages double from 1 to 16 KiB, so that a body of which little arrives holds little. */
  #beginPage(bytes: Uint8Array): void {
    this.#endPage()
    const left = this.#bytesMax - this.length + bytes.byteLength
    const size = Math.min(pageBytes, Math.max(firstPageBytes, this.length), left)
    this.#page = new Uint8Array(size)
    this.#page.set(bytes)
    this.#pageUsed = bytes.byteLength
    this.held += size
  }

  /** Keeps no more of a page than is used. */
  #endPage(): void {
    if (this.#pageUsed > 0) {
      this.held -= this.#page.byteLength - this.#pageUsed
      this.#full.push(
        this.#pageUsed === this.#page.byteLength ? this.#page : this.#page.slice(0, this.#pageUsed),
      )
    }
    this.#page = new Uint8Array(0)
    this.#pageUsed = 0
  }
}
