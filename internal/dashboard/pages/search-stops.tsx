import { Empty } from '../components/block.tsx'

/** What stands in the place of a list that was not searched, or not to its end: filters that are none, or more to look at. */
export function SearchStops({
  isWrong,
  lookedAt,
}: {
  readonly isWrong: boolean
  /** Among what nothing was found. */
  readonly lookedAt: string
}) {
  return isWrong ? (
    <Empty icon="warning" title="Nothing was searched for: see the filters" />
  ) : (
    <Empty icon="search" title={`None among ${lookedAt}`}>
      The search goes on with “Older”.
    </Empty>
  )
}
