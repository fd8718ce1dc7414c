const halfLifeMs = 500
/** Initial score that gives a body time for its first bytes to arrive. */
const scoreAtStart = 16 * 1024
/** Maximum score, even after a large burst. After four half-lives without a byte, every score is below `scoreAtStart`. */
const scoreMax = 128 * 1024

/** Recent progress of an unfinished body: the bytes received, halved every 500 ms since. */
export interface Progress {
  readonly score: number
  readonly lastByteAtMs: number
}

export function startProgress(nowMs: number): Progress {
  return { score: scoreAtStart, lastByteAtMs: nowMs }
}

export function scoreAt({ score, lastByteAtMs }: Progress, nowMs: number): number {
  return score * 2 ** ((lastByteAtMs - nowMs) / halfLifeMs)
}

export function scoreAfter(progress: Progress, bytes: number, nowMs: number): number {
  return Math.min(scoreMax, scoreAt(progress, nowMs) + bytes)
}

export interface Candidate extends Progress {
  readonly source: string
  readonly startedAtMs: number
  /** Size in bytes, or 1 if the limit is a number of bodies. */
  readonly weight: number
}

export interface Requester {
  readonly source: string
  readonly score: number
}

export interface Need {
  readonly needed: number
  /** Weight to evict if there are enough candidates; at least `needed`. */
  readonly wanted: number
  /** Maximum weight of a source without its heaviest body. If a source exceeds it, its bodies are evicted first. */
  readonly sourceShare: number
  readonly nowMs: number
  /** Body that requests memory. Undefined: any body can be evicted, whatever its progress. */
  readonly requester: Requester | undefined
}

/** Divisor: a victim has at most the requester's score divided by it, so that two equally fast bodies do not evict each other. */
const requesterShare = 2

/**
 * Chooses the bodies to evict: first from the source furthest above its share, then from all sources, and the lowest score first. A
 * requester evicts only bodies with at most half of its score, except bodies of another source above its share.
 * @returns an empty list if the evictions would not free the needed weight
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
  readonly score: number
  isChosen: boolean
}

function rank<Body extends Candidate>(candidates: readonly Body[], nowMs: number): Ranked<Body>[] {
  const ranked = candidates.map((body) => ({ body, score: scoreAt(body, nowMs), isChosen: false }))
  return ranked.sort((a, b) => a.score - b.score || a.body.startedAtMs - b.body.startedAtMs)
}

/** Bodies of one source, sorted by score. The bodies before `next` are already chosen. */
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

function mostBeyond<Body>(sources: Iterable<Source<Body>>, share: number): Source<Body> | undefined {
  let most: Source<Body> | undefined
  for (const source of sources) {
    const beside = source.weight - source.heaviest
    if (beside > share && (!most || beside > most.weight - most.heaviest)) most = source
  }
  return most
}
