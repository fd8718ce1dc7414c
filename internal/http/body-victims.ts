/** A body that is waited for, as it is compared with others. */
export interface Candidate {
  /** Address or owner that the body is counted under. */
  readonly source: string
  readonly startedAtMs: number
  readonly bytesArrived: number
  /** What dropping it gives: bytes, or 1 where bodies are counted. */
  readonly weight: number
}

/** The body that needs room, where it is compared too. */
export interface Requester {
  readonly source: string
  /** Bytes a second. */
  readonly rate: number
}

/** What is needed, and how bodies are compared. */
export interface Need {
  /** The least weight that has to go. */
  readonly needed: number
  /** The weight to drop where there are enough bodies, at least `needed`. */
  readonly wanted: number
  /** Weight that a source may have beside its heaviest body before its bodies go first. */
  readonly sourceShare: number
  readonly nowMs: number
  /** Age below which a body goes only after all older ones. */
  readonly graceMs: number
  /** Undefined for one that gets room from any other body. */
  readonly requester: Requester | undefined
}

/** Bytes a second since a body's start; one younger than the grace time is taken to be as old. */
export function rateOf(bytesArrived: number, ageMs: number, graceMs: number): number {
  return (bytesArrived * 1000) / Math.max(ageMs, graceMs, 1)
}

/**
 * Chooses the bodies to drop: those of the source with the most weight beyond its share, and where no source is beyond it those
 * of all; of them the lowest rate first, and those in their grace time last, the oldest of them first. A requester that is compared gets no
 * room from a faster or younger body, except from one of another source that is beyond its share.
 * @returns none where they would not give what is needed
 */
export function chooseVictims<Body extends Candidate>(candidates: readonly Body[], need: Need): Body[] {
  const { needed, wanted, sourceShare, requester } = need
  const ranked = rank(candidates, need)
  const sources = groupBySource(ranked)
  const victims: Body[] = []
  let dropped = 0
  let next = 0
  while (dropped < wanted) {
    const beyond = mostBeyond(sources.values(), sourceShare)
    while (ranked[next]?.isChosen) next += 1
    const victim = beyond ? beyond.queue[beyond.next] : ranked[next]
    const source = victim && sources.get(victim.body.source)
    if (!source) break
    const isForeign = beyond !== undefined && victim.body.source !== requester?.source
    if (requester && !isForeign && (victim.isYoung || victim.rate >= requester.rate)) break
    victim.isChosen = true
    source.weight -= victim.body.weight
    source.next += 1
    victims.push(victim.body)
    dropped += victim.body.weight
  }
  return dropped >= needed ? victims : []
}

interface Ranked<Body> {
  readonly body: Body
  readonly rate: number
  readonly isYoung: boolean
  isChosen: boolean
}

function rank<Body extends Candidate>(
  candidates: readonly Body[],
  { nowMs, graceMs }: Pick<Need, 'nowMs' | 'graceMs'>,
): Ranked<Body>[] {
  const ranked: Ranked<Body>[] = candidates.map((body) => {
    const ageMs = nowMs - body.startedAtMs
    return {
      body,
      rate: rateOf(body.bytesArrived, ageMs, graceMs),
      isYoung: ageMs < graceMs,
      isChosen: false,
    }
  })
  return ranked.sort((a, b) => {
    if (a.isYoung !== b.isYoung) return a.isYoung ? 1 : -1
    const byAge = a.body.startedAtMs - b.body.startedAtMs
    return a.isYoung ? byAge : a.rate - b.rate || byAge
  })
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
