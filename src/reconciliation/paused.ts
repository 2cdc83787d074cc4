/** The run stops here. The next run continues. */
export class Paused extends Error {}
