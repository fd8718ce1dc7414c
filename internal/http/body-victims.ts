/** Time in which the score of a stalled body halves. */
const halfLifeMs = 500
/** Score of a body of which nothing has arrived yet, so that it has time to arrive. */
const scoreAtStart = 16 * 1024
/** Maximum score: a burst of any length counts for nothing after four half-lives without a byte. */
const scoreMax = 128 * 1024

/** Recent progress of an unfinished body: bytes that arrived, halved every 500 ms since. */
export interface Progress {
  readonly score: number
  readonly lastByteAtMs: number
}

/** Returns the progress of a body that begins now. */
export function startProgress(nowMs: number): Progress {
  return { score: scoreAtStart, lastByteAtMs: nowMs }
}

/** Returns the score now. */
export function scoreAt({ score, lastByteAtMs }: Progress, nowMs: number): number {
  return score * 2 ** ((lastByteAtMs - nowMs) / halfLifeMs)
}

/** Returns the score after `bytes` have arrived now. */
export function scoreAfter(progress: Progress, bytes: number, nowMs: number): number {
  return Math.min(scoreMax, scoreAt(progress, nowMs) + bytes)
}

/** An unfinished body, as it is compared with others. */
export interface Candidate extends Progress {
  /** Eviction group: client network or tenant. */
  readonly source: string
  readonly startedAtMs: number
  /** Gain of evicting it: bytes, or 1 when the limit counts bodies. */
  readonly weight: number
}

/** The unfinished body that needs room. */
export interface Requester {
  readonly source: string
  readonly score: number
}

/** Eviction request: amount to free and ranking parameters. */
export interface Need {
  /** Minimum weight to evict. */
  readonly needed: number
  /** Weight to evict where there are enough bodies; at least `needed`. */
  readonly wanted: number
  /** Maximum weight of a source beside its heaviest body; above it, its bodies are evicted first. */
  readonly sourceShare: number
  readonly nowMs: number
  /** Undefined for a body that is not compared. */
  readonly requester: Requester | undefined
}

/** A requester evicts only bodies of at most this fraction of its score, so that two equally fast ones do not evict each other. */
const requesterShare = 2

/**
 * Chooses the bodies to evict: first those of the source furthest above its share, then those of all sources; the lowest score first.
 * A requester that is compared evicts only bodies of at most half its score, except those of another source above its share.
 * @returns none where they would not free what is needed
 */
export function chooseVictims<Body extends Candidate>(candidates: readonly Body[], need: Need): Body[] {
  const { needed, wanted, sourceShare, requester, nowMs } = need
  const ranked = rank(candidates, nowMs)
  const sources = groupBySource(ranked)
  const victims: Body[] = []
  let evicted = 0
  let next = 0
  while (evicted < wanted) {
    const beyond = mostBeyond(sources.values(), sourceShare)
    while (ranked[next]?.isChosen) next += 1
    const victim = beyond ? beyond.queue[beyond.next] : ranked[next]
    const source = victim && sources.get(victim.body.source)
    if (!source) break
    const isForeign = beyond !== undefined && victim.body.source !== requester?.source
    if (requester && !isForeign && victim.score * requesterShare > requester.score) break
    victim.isChosen = true
    source.weight -= victim.body.weight
    source.next += 1
    victims.push(victim.body)
    evicted += victim.body.weight
  }
  return evicted >= needed ? victims : []
}

interface Ranked<Body> {
  readonly body: Body
  /** Now. */
  readonly score: number
  isChosen: boolean
}

function rank<Body extends Candidate>(candidates: readonly Body[], nowMs: number): Ranked<Body>[] {
  const ranked = candidates.map((body) => ({ body, score: scoreAt(body, nowMs), isChosen: false }))
  return ranked.sort((a, b) => a.score - b.score || a.body.startedAtMs - b.body.startedAtMs)
}

/** Bodies of one source, in the order in which they go; those before `next` are chosen. */
interface Source<Body> {
  weight: number
  heaviest: number
  readonly queue: Ranked<Body>[]
  next: number
}

function groupBySource<Body extends Candidate>(ranked: readonly Ranked<Body>[]): Map<string, Source<Body>> {
  const sources = new Map<string, Source<Body>>()
  for (const each of ranked) {
    const { source: name, weight } = each.body
    let source = sources.get(name)
    if (!source) sources.set(name, (source = { weight: 0, heaviest: 0, queue: [], next: 0 }))
    source.weight += weight
    source.heaviest = Math.max(source.heaviest, weight)
    source.queue.push(each)
  }
  return sources
}

/** The source with the most weight beside its heaviest body, if that is more than its share. */
function mostBeyond<Body>(sources: Iterable<Source<Body>>, share: number): Source<Body> | undefined {
  let most: Source<Body> | undefined
  for (const source of sources) {
    const beside = source.weight - source.heaviest
    if (beside > share && (!most || beside > most.weight - most.heaviest)) most = source
  }
  return most
}
