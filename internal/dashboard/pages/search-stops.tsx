import { Empty } from '../components/block.tsx'

/** What stands in the place of a list whose filters are none. */
export function NotSearched() {
  return <Empty icon="warning" title="Nothing was searched for: see the filters" />
}

/** What stands in the place of an empty page that others follow. `lookedAt`: among what nothing was found. */
export function SearchGoesOn({ lookedAt }: { readonly lookedAt: string }) {
  return (
    <Empty icon="search" title={`None among ${lookedAt}`}>
      The search goes on with “Older”.
    </Empty>
  )
}
