/** What a reader may choose when an answer has ended. Each says whether that could be done: not while another one is on its way. */
export interface Offers {
  /** Asks the same again; the new answer takes the place of the old one. */
  again(): boolean;
  /** Lets the reader change the question; its answer, too, takes the place of the old one. */
  edit(): boolean;
  /** Has the model go on where it has stopped. */
  goOn(): boolean;
}
