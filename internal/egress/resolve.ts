/** Gives all addresses of a name, in the order to try them; rejects when it has none. */
export type Resolve = (name: string) => Promise<readonly string[]>

/** What came of a name. */
export type Resolved =
  | { readonly kind: 'addresses'; readonly addresses: readonly string[] }
  | { readonly kind: 'failed'; readonly cause: 'no_address' | 'too_many' | 'timeout' }

/** Names with what they resolved to a moment ago. */
export type Resolver = (name: string, timeoutMs: number) => Promise<Resolved>

/** What a resolver is made of. */
export interface ResolverOptions {
  readonly resolve: Resolve
  /** Milliseconds, from any start. */
  readonly now: () => number
}

interface Known {
  readonly pending: Promise<Resolved>
  /** Undefined while the name is being resolved. */
  settled: { readonly value: Resolved; readonly expiresAtMs: number } | undefined
}

const keptMs = 5000
const failureKeptMs = 1000
const namesMax = 10_000
const addressesMax = 64

/**
 * All addresses of a name from /etc/hosts and DNS, the cluster's search domains included.
 *
 * By c-ares, which waits without a thread: `node:dns` calls getaddrinfo on a pool of a few threads, so that a handful of names
 * whose name servers are silent would stop every other tenant's calls (40 of them: over 40 s, Bun 1.4.5).
 */
export const systemResolve: Resolve = async (name) => {
  const found = await Bun.dns.lookup(name, { backend: 'c-ares' })
  return found.map(({ address }) => address)
}

/**
 * Makes a resolver that asks once for many calls: an answer is kept for 5 s, a failure for 1 s, 10 000 names at most, and
 * calls for a name that is being resolved wait for the same answer. Never rejects.
 */
export function createResolver({ resolve, now }: ResolverOptions): Resolver {
  const known = new Map<string, Known>()

  function ask(name: string): Known {
    const entry: Known = { pending: outcomeOf(resolve, name), settled: undefined }
    known.delete(name)
    known.set(name, entry)
    void entry.pending.then((value) => {
      const lifeMs = value.kind === 'addresses' ? keptMs : failureKeptMs
      entry.settled = { value, expiresAtMs: now() + lifeMs }
    })
    for (const oldest of known.keys()) {
      if (known.size <= namesMax) break
      known.delete(oldest)
    }
    return entry
  }

  return async (name, timeoutMs) => {
    const entry = known.get(name)
    if (!entry) return within(ask(name).pending, timeoutMs)
    if (!entry.settled) return within(entry.pending, timeoutMs)
    return now() < entry.settled.expiresAtMs ? entry.settled.value : within(ask(name).pending, timeoutMs)
  }
}

async function outcomeOf(resolve: Resolve, name: string): Promise<Resolved> {
  try {
    const addresses = [...new Set(await resolve(name))]
    if (addresses.length === 0) return { kind: 'failed', cause: 'no_address' }
    // Each is judged before the first is called: a name with more is no callback's.
    return addresses.length > addressesMax
      ? { kind: 'failed', cause: 'too_many' }
      : { kind: 'addresses', addresses }
  } catch {
    return { kind: 'failed', cause: 'no_address' }
  }
}

/** The resolver itself goes on, bounded by its own attempts, and its answer serves the next call. */
async function within(pending: Promise<Resolved>, timeoutMs: number): Promise<Resolved> {
  let timer: Timer | undefined
  const late = new Promise<Resolved>((resolve) => {
    timer = setTimeout(() => resolve({ kind: 'failed', cause: 'timeout' }), timeoutMs)
  })
  try {
    return await Promise.race([pending, late])
  } finally {
    clearTimeout(timer)
  }
}
