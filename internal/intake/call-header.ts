import type { CallHeaders } from './provider.ts'

/** What a header and its twins say together. */
export type HeaderReading =
  | { readonly kind: 'value'; readonly value: string }
  | { readonly kind: 'absent' }
  | { readonly kind: 'conflict' }

const absent: HeaderReading = { kind: 'absent' }
const conflict: HeaderReading = { kind: 'conflict' }

/**
 * Reads a header that goes by several names: ours and the vendor's. Names that say different things are a conflict, so that
 * never one of them is verified and another used. An empty header counts as one that did not come.
 */
export function readHeader(headers: CallHeaders, names: readonly string[]): HeaderReading {
  let found: string | undefined
  for (const name of names) {
    const value = headers.get(name)
    if (value === null) continue
    if (found !== undefined && found !== value) return conflict
    found = value
  }
  return found === undefined || found === '' ? absent : { kind: 'value', value: found }
}

/** The value of a reading that is no conflict; '' where the header did not come. */
export function headerText(reading: Exclude<HeaderReading, { kind: 'conflict' }>): string {
  return reading.kind === 'value' ? reading.value : ''
}
