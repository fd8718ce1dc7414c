/** Tokens that the API server has once known, by their digests. Says nothing of whether they count still. */
export interface ProvenTokens {
  has(digest: string): boolean
  /** Notes what came of asking about one. */
  note(digest: string, isKnown: boolean): void
}

/** Remembers as many; the one that was noted longest ago makes way. */
export function createProvenTokens(digestsMax: number): ProvenTokens {
  const digests = new Set<string>()
  return {
    has: (digest) => digests.has(digest),
    note(digest, isKnown) {
      digests.delete(digest)
      if (!isKnown) return
      digests.add(digest)
      if (digests.size <= digestsMax) return
      const oldest = digests.keys().next()
      if (!oldest.done) digests.delete(oldest.value)
    },
  }
}
