"""Sentence templates of the support-dialogue corpus.

Each intent has customer sentences for training (`train`), customer sentences that only the
held-out set uses (`held_out`), and the agent's answers (`answers`).

Notation inside a template:

* `(a|b|c)` picks one alternative; an empty one is allowed. Alternations do not nest.
* `{item}` is a noun phrase for the product, `{ord}` one for the order, in the customer's words.
* `{thing}` is the agent's noun phrase: product and order number as far as the ticket has them.
* `{days}`, `{amount}`, `{city}`, `{month}`, `{code}`, `{part}` are filled with random values.
"""

from __future__ import annotations

from dataclasses import dataclass

from paraphrases import PARAPHRASES


@dataclass(frozen=True)
class Intent:
    """One reason to write to support. `shop` says whether a product and an order are usual."""

    name: str
    shop: bool
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    answers: tuple[str, ...]
    contact: str = "update"


def _intent(name: str, shop: bool, train: str, held_out: str, answers: str, contact: str = "update") -> Intent:
    """Builds an intent from blocks of text with one template a line; `paraphrases.py` has more for training."""

    def lines(block: str) -> tuple[str, ...]:
        return tuple(line.strip() for line in block.strip().splitlines() if line.strip())

    return Intent(name, shop, lines(train) + lines(PARAPHRASES[name]), lines(held_out), lines(answers), contact)


INTENTS: tuple[Intent, ...] = (
    _intent(
        "late_delivery", True,
        """
        {item} (has not arrived|hasn't come|is not here) yet and it is already {days} late.
        I (ordered|bought) {item} {days} ago and (nothing has arrived|it is still not here|there is no sign of it).
        (Where is|What happened to) {item}? The (tracking|tracking page|status) has not (moved|changed) for {days}.
        {ord} was (supposed|meant|due) to be delivered {days} ago.
        I am still waiting for {item}. (When will it be delivered?|When does it come?|Can you check?)
        The (delivery|parcel|package) is late again, {ord} should have been here {days} ago.
        The (courier|carrier|driver) never showed up with {item}.
        Tracking says delivered but I (never received|did not get|don't have) {item}.
        (Could|Can) you tell me when {item} will (arrive|get here|be delivered)?
        My (parcel|package|shipment) seems to be (lost|stuck|missing) in (transit|the depot|the mail).
        {ord} still has not (shipped|been sent|been dispatched) after {days}.
        (Any news|Any update) on the delivery of {item}? I (need|needed) it {days} ago.
        It says out for delivery since {days} and (nobody came|nothing came).
        How much longer do I have to wait for {item}? You promised it would be with me {days} ago.
        I keep checking the door but {item} never turned up.
        The shipment of {ord} is overdue by {days} now.
        My package was meant to be here last week and the tracking is stuck.
        """,
        """
        Ten mornings in a row I have looked out for your van, and {item} is nowhere to be seen.
        Has {ord} fallen off the lorry? It is {days} behind schedule.
        We counted on having {item} by the weekend and the delivery simply did not happen.
        Somehow {ord} is travelling in circles between depots, please get it moving.
        """,
        """
        I am sorry that {thing} is late. I have asked the carrier to trace the parcel, and you will hear from us within two days.
        I am sorry for the delay with {thing}. The carrier will trace the parcel, and if it is not found we will send a new one.
        """,
    ),
    _intent(
        "refund_request", True,
        """
        I (want|would like|need) a refund for {item}.
        (Please|Kindly) refund {ord}, I (do not want|don't need|no longer want) {item}.
        I want my money back for {item}, it is (not what I expected|not good enough|a disappointment).
        (How do I|How can I|Where can I) return {item} and get my money back?
        I (sent back|returned|would like to return|want to send back) {item}, please (refund me|pay me back|give me the money back).
        {item} is not for me. (Can I|May I|Could I) return it for a (full refund|refund)?
        I changed my mind about {item} and (would like|want) to return it.
        Can I get a refund on {ord}? It cost {amount}.
        I am not happy with {item}, (so I want|please give me) a refund.
        What is the return policy? I would like to send {item} back.
        I (need|want) to start a return for {ord}.
        Please reimburse me for {item}, I have no use for it.
        I'd like to hand {item} back and have the {amount} returned to me.
        Requesting my money back on {ord}, thanks.
        How does sending {item} back work? I expect to be refunded.
        """,
        """
        Having tried {item} for an evening, I'd sooner return it and have my payment refunded.
        Kindly arrange the return of {item}, the refund may go to the card I used.
        {amount} for {item} was a mistake, so a refund would be welcome.
        My partner hates {item}, hence I hope you take returns and refund them.
        """,
        """
        We can refund {thing}. Please send it back with the return label in this reply, and the money is paid within five days of its arrival.
        You can return {thing} within 30 days. Use the return label in this reply, and we will refund you once the parcel is here.
        """,
    ),
    _intent(
        "refund_status", True,
        """
        I returned {item} {days} ago and (still have no refund|the refund has not come|am still waiting for my refund).
        (Where is|What about) my refund for {ord}?
        You (promised|confirmed|approved) a refund for {item} {days} ago but the money (is not|has not shown up|isn't) on my account.
        My refund of {amount} (has not arrived|is missing|is not showing|is still pending).
        When will I (get|receive|see) the refund for {item}? I sent it back {days} ago.
        The refund for {ord} is taking (too long|forever|very long).
        It has been {days} since you received the return and (no money yet|nothing was refunded).
        The refund is not showing up in my (statement|bank account|account).
        (Can|Could) you check the status of my refund for {item}?
        I only got part of my refund for {ord}, {amount} is missing.
        My return reached you {days} ago, yet the refund never made it to my bank.
        Has the refund for {item} been paid out? I see nothing.
        Still no sign of the {amount} you said you would refund.
        How long until the refund for {ord} lands in my account?
        """,
        """
        According to your mail the refund was on its way, that was {days} ago and my balance says otherwise.
        For {days} your warehouse has had the returned {ord}, so the refund is long due.
        Could somebody chase up the refund owed to me for {item}?
        Refund of {amount} approved, refund not received, please explain.
        """,
        """
        I have checked the refund for {thing}. It is approved and can take up to five working days to show on your account.
        The refund for {thing} has been started. Please allow five working days until your bank shows it.
        """,
    ),
    _intent(
        "damaged", True,
        """
        {item} arrived (broken|damaged|cracked|smashed|in pieces).
        {item} came with a (crack|dent|big scratch|broken {part}).
        The box was (crushed|torn|wet|open) and {item} is (damaged|broken|ruined).
        I (opened|unpacked) the parcel and {item} was (broken|shattered|damaged|bent).
        The {part} of {item} is (broken|cracked|damaged|bent), it must have happened in (transit|shipping|transport).
        {ord} arrived (damaged|broken). (Can you send a new one?|I need a replacement.|What now?)
        My new item is (scratched|dented|chipped) (on the {part}|out of the box|all over).
        It was delivered broken, (I want a replacement|please replace it|please send another one).
        Glass was broken everywhere when I opened {ord}.
        The (parcel|package) was damaged and so is {item}.
        When I took {item} out of its packaging the {part} fell off in two pieces.
        Something heavy must have hit the carton because {item} is all dented.
        {item} showed up shattered, please ship me another.
        The contents of {ord} were damaged by the time they reached me.
        """,
        """
        Unboxing {item} was a sad affair, the {part} lay there cracked among splinters.
        Your driver handed over a squashed box, inside of it {item} with a broken {part}.
        {item} must have been damaged on the lorry, it has a dent as big as my fist.
        Sadly {ord} reached our house smashed, so a replacement is needed.
        """,
        """
        I am sorry that {thing} arrived damaged. We will send a replacement today, and you do not need to return the broken one.
        I am sorry that {thing} came damaged. Please keep a photo of it, we are sending a replacement right away.
        """,
    ),
    _intent(
        "defective", True,
        """
        {item} (stopped working|does not work|is not working|won't work) after {days}.
        {item} (does not|will not|won't|doesn't) (turn on|switch on|start|charge|power up).
        The {part} on {item} (stopped working|does not work|keeps failing|is faulty).
        {item} (makes a strange noise|keeps switching off|gets very hot|smells burnt|keeps crashing).
        (After|Only) {days} of use {item} (died|is dead|broke down|stopped).
        There is something wrong with {item}, it (turns off by itself|does nothing|flashes red|leaks).
        The battery of {item} (lasts only an hour|does not hold a charge|is dead).
        I think {item} is (faulty|defective|a dud).
        My item keeps (disconnecting|freezing|restarting|overheating).
        {item} worked for {days} and now it (is dead|does nothing|won't start).
        Pressing the button on {item} has no effect whatsoever, the lights stay off.
        {item} gave up on me after only {days}, it just shuts down.
        There's a fault in {item}: the {part} quits every few minutes.
        I can't get {item} to run at all any more.
        """,
        """
        No matter how long I hold the button, {item} refuses to switch on.
        Lately {item} cuts out after ten minutes and needs an hour before it works again.
        The {part} on {item} has become faulty, sparks came out of it.
        Suddenly {item} went dark in the middle of the day and stopped working for good.
        """,
        """
        I am sorry that {thing} is not working. Please unplug it for one minute and try again, and if that does not help we will replace it.
        I am sorry about the fault with {thing}. Please restart it once, and if it still fails we will repair or replace it for free.
        """,
    ),
    _intent(
        "wrong_item", True,
        """
        I (got|received|was sent) the wrong (item|product|thing), I ordered {item}.
        You sent me (something else|a different product|the wrong colour|the wrong size|the wrong model) instead of {item}.
        This is not what I ordered. I (ordered|wanted|paid for) {item}.
        The (box|parcel|package) had (someone else's order|a different item|the wrong thing) in it.
        {ord} contained the wrong (item|product|colour|size).
        I ordered {item} but (got a toaster|got a different one|a different colour came|the wrong one came).
        The item in {ord} does not match (my order|what I ordered|the description).
        Wrong product delivered, (please send the right one|I need the correct one|please exchange).
        You mixed up my order, this is not {item}.
        (Why did I get|I got) the blue one? I ordered {item} in black.
        Instead of {item} there was a completely unrelated article in the carton.
        Somebody packed the incorrect product, {item} was what I paid for.
        What arrived under {ord} isn't the thing I chose on your site.
        I seem to have been given another customer's goods.
        """,
        """
        Surprise: the carton held a garden gnome, whereas {item} is what I had ordered.
        You have delivered the wrong thing under {ord}, it is not even the same brand.
        Whoever packed {ord} grabbed the wrong product from the shelf.
        Imagine my face when a different article came out instead of {item}.
        """,
        """
        I am sorry that we sent the wrong item for {thing}. The right one leaves our warehouse today, and a free return label is on its way.
        I am sorry for the mix-up with {thing}. We will send the right item today and collect the wrong one for free.
        """,
    ),
    _intent(
        "missing_part", True,
        """
        The {part} of {item} (is missing|was not in the box|is not included|was missing).
        {item} came without (the {part}|a {part}|the manual|the screws).
        There was no {part} in the (box|package|parcel).
        I (received|got) {item} but the {part} is missing.
        Only (one of two|part of the) items in {ord} came, (the rest is missing|where is the rest).
        {ord} is incomplete, the {part} is (missing|not there).
        Parts are missing from {item}, (I cannot assemble it|I can't use it).
        Something is missing in {ord}.
        My parcel was (not complete|incomplete), the {part} was not there.
        I looked everywhere in the carton, no {part} for {item}.
        You forgot to put the {part} in with {item}.
        Half of the contents of {ord} weren't inside.
        Can you post the {part} that should have come with {item}?
        """,
        """
        Everything for {item} is here apart from the {part}, which is missing.
        I emptied the whole package on the floor and still the {part} is missing.
        Without the {part}, which you failed to include, {item} is just decoration.
        We got three of the four pieces belonging to {ord}, one is missing.
        """,
        """
        I am sorry that a part is missing from {thing}. We will send the missing part today at no cost.
        I am sorry that {thing} came incomplete. The missing part is sent to you today for free.
        """,
    ),
    _intent(
        "cancel_order", True,
        """
        (Please|I want to|I would like to|I need to) cancel {ord}.
        (Can you|Could you|Can I) (please |)cancel {ord}? I (ordered by mistake|found it cheaper|do not need it any more).
        I (ordered|bought) {item} by (mistake|accident), please cancel.
        Cancel my order for {item} (before it ships|please|now|at once).
        I ordered {item} twice, please cancel one of them.
        Is it still possible to cancel {ord}?
        I (do not want|don't want|no longer need) {item} any more, it has not shipped yet, (cancel it|please cancel).
        How (can|do) I cancel {ord}? The website does not let me.
        I'd like to cancel the (purchase|order) of {item}.
        Stop {ord}, I made a mistake.
        Kindly call off the purchase of {item}, I clicked too fast.
        There is no need to ship {ord} any longer, please cancel the whole thing.
        I hope it's not too late to cancel the order I placed this morning.
        Please do not send {item}, I want the order cancelled.
        """,
        """
        My plans changed overnight, hence please cancel {ord} before anything leaves the warehouse.
        Cancellation of {item} requested, my sister bought me the very same.
        If nobody has packed {item} by now, cancel it for me.
        Oops, my kid ordered {item} on my phone, could you cancel that?
        """,
        """
        I have asked the warehouse to cancel {thing}. If it has not shipped yet you get the full amount back within three days.
        We will cancel {thing} as long as it has not shipped. You get the full amount back within three days.
        """,
    ),
    _intent(
        "change_address", True,
        """
        (Please|Can you|Could you) (change|update|correct) the (delivery|shipping) address of {ord}.
        I (moved|have moved|am moving) to {city}, please send {item} to the new address.
        I (typed|gave|entered) the wrong address for {ord}.
        The address on {ord} is (wrong|incorrect|old|out of date).
        Can {item} be delivered to (my office|my neighbour|another address|a pick-up point) in {city}?
        I need to change where {item} is (delivered|sent|shipped).
        The (house number|postcode|street) on my order is wrong, please (fix|change|correct) it.
        Please ship {ord} to {city} instead.
        How do I change my address? I moved to {city}.
        (Is it possible|Would it be possible) to update the address for {item}?
        We relocated to {city} last week, so {item} must go to our new home.
        Could {ord} be redirected to a different place in {city}?
        I noticed a mistake in the street name of my shipping details.
        Don't send {item} to the old flat, I don't live there now.
        """,
        """
        By the time {item} ships we will have moved to {city}, so use our new address.
        The system filled in an outdated delivery address for {ord}, mine is now in {city}.
        Flat 3, not flat 8: the address you have for {ord} needs correcting.
        For {item} I accidentally picked the delivery address of my ex, change that quickly.
        """,
        """
        We can change the delivery address for {thing}. Please reply with the full new address, and we will update it before it ships.
        Thank you for telling us about the new address for {thing}. Please send us the street, postcode and city, and we will correct it.
        """,
    ),
    _intent(
        "invoice", True,
        """
        (I need|Please send me|Can I get|Could you send me) (an|the|a copy of the) invoice for {ord}.
        (Where is|I cannot find|I never got) the (invoice|receipt|bill) for {item}.
        I need a (VAT invoice|receipt|tax invoice) for my (company|accountant|employer).
        The invoice for {item} has the wrong (name|address|company|VAT number).
        Please (resend|email|send) the (receipt|invoice) for {ord}.
        How (can|do) I download the (invoice|receipt) for {item}?
        There was no (invoice|receipt) in the (box|parcel) with {item}.
        My accountant needs the bill for {ord}.
        Can you put my company name on the invoice for {item}?
        For my tax return I require proof of purchase of {item}.
        The bookkeeping department is asking me for the bill of {ord}.
        Would you mail me the receipt again? I deleted it.
        I could not locate any invoice document for {item} in my account.
        """,
        """
        Nothing but {item} was in the carton, an invoice would have been nice.
        Finance will not pay me back for {item} unless I show them an invoice.
        Kindly attach the invoice belonging to {ord} to your next mail.
        Our auditors want to see a receipt for {item} by Monday.
        """,
        """
        Here is what to do about the invoice for {thing}. You find it under My Orders as a PDF, and a copy is on its way to you.
        The invoice for {thing} is ready. You can download it under My Orders, and we will send you a copy as well.
        """,
    ),
    _intent(
        "warranty", True,
        """
        Is {item} still (under warranty|covered by the warranty|in warranty)?
        (How long is|What is|How do I claim) the warranty (on|for|of) {item}?
        I want to (make|file|start) a warranty claim for {item}.
        I bought {item} in {month} and it broke, is it covered by the guarantee?
        Does the (warranty|guarantee) cover (the {part}|water damage|a broken {part})?
        The shop says my warranty for {item} has (expired|ended), is that right?
        Can I (extend|register) the (warranty|guarantee) of {item}?
        I have a question about the (warranty|guarantee) on {ord}.
        Where (do|can) I register {item} for the warranty?
        For how many years does the guarantee run on {item}?
        I'd like to know if a repair of {item} falls under the manufacturer's guarantee.
        The {part} failed, please open a warranty case for {item}.
        Am I still entitled to free repair under warranty?
        """,
        """
        Before I throw {item} away, tell me whether the warranty still applies.
        My neighbour claims that {item} carries a long guarantee, is he right?
        A hairline crack appeared near the {part}, surely that is a warranty matter.
        Purchased in {month}, broken today: what will the warranty do for {item}?
        """,
        """
        The warranty for {thing} runs for two years from the day of purchase. Please send us a photo of the fault and the receipt, and we will open a claim.
        There is a two-year warranty on {thing}. Send us the receipt and a short description of the fault, and we will open a claim.
        """,
    ),
    _intent(
        "password", False,
        """
        I (forgot|lost|do not remember|can't remember) my password.
        I (cannot|can't|am not able to|could not) (log in|log into my account|sign in|login) (any more|since yesterday|).
        The (password reset|reset link|reset email) (does not arrive|never comes|does not work|has expired).
        My account is (locked|blocked) after too many (attempts|tries|wrong passwords).
        How (do|can) I (reset|change) my password?
        The (login|sign in page|app) says my password is wrong.
        I do not (get|receive) the (code|verification code|login code) (by text|on my phone|by email).
        Please (reset|unlock) my account, I am locked out.
        I (changed my phone|have a new phone) and cannot (log in|get the login code) any more.
        It keeps saying invalid password when I sign in.
        Your site refuses my credentials every time I try to get in.
        I have been shut out of my profile, help me get access again.
        My passcode was forgotten, what should I do to set a new one?
        Signing in fails with an error about the password.
        """,
        """
        Whatever I type as my password, the page turns me away.
        Yesterday the login was fine, today my password is suddenly invalid.
        Somehow I managed to lock my account by typing the password with caps on.
        Could you send a fresh password link, the old one has died.
        """,
        """
        We can help you to sign in again. Please use the reset link on the login page, it is valid for one hour, and never send us your password.
        Your account can be unlocked with a new password. Please use the reset link on the login page and never send us your password.
        """,
        "reset",
    ),
    _intent(
        "double_charge", True,
        """
        I was (charged|billed|debited) twice for {item}.
        You (charged|billed) me (two times|twice|double) for {ord}.
        There are two (payments|charges|transactions) of {amount} (on my card|on my statement|in my account) for {ord}.
        My card was charged {amount} twice, (please refund one|why is that|please check).
        I paid {amount} two times for {item}.
        The same payment (appears|shows|was taken) twice.
        Why was I charged again for {item}? I already paid.
        I see a duplicate (payment|charge|transaction) of {amount}.
        You took too much money, {amount} instead of what {item} costs.
        It looks like the payment for {ord} went through twice.
        My bank statement lists {amount} two separate times for a single {item}.
        Please return the second debit for {ord}, one payment was enough.
        A double payment was made for {item} by accident on your side.
        Why has the same sum been collected from me two times?
        """,
        """
        Looking at my statement, {amount} was charged on Monday and then charged twice more for {ord}.
        Buying {item} once should not lead to two charges.
        For {ord} my bank has recorded a double charge, kindly undo it.
        It seems your till charged me twice when {item} was paid.
        """,
        """
        I am sorry about the double charge for {thing}. The second payment will be returned to you within three working days.
        I see that you were charged twice for {thing}. We will return the extra payment within three working days.
        """,
    ),
    _intent(
        "subscription", False,
        """
        I (want|would like|need) to cancel my (subscription|membership|plan).
        How (do|can) I (cancel|end|stop|pause) my (subscription|membership)?
        My (subscription|membership) was renewed (without asking|automatically|again), I do not want it.
        (Please|Can you) (end|stop|cancel) my (monthly plan|yearly plan|subscription|membership).
        I was charged {amount} for a (subscription|membership) I (cancelled|never wanted|did not order).
        Can I (switch|change|upgrade|downgrade) my (plan|subscription) to the (yearly|monthly|smaller|basic) one?
        Please pause my subscription until {month}.
        I do not use the (subscription|premium plan) any more, cancel it.
        When does my (subscription|membership) end?
        I still get billed every month although I ended the subscription.
        The premium membership should not be extended after {month}, please terminate it.
        Take me off the monthly plan, I hardly use it.
        Every month {amount} is deducted for a subscription I quit long ago.
        Is it possible to move from the monthly plan to a yearly subscription?
        """,
        """
        Since I hardly open the app, let my subscription run out.
        Your reminder says that my subscription renews in {month}, I would prefer that it stops.
        Three months of the subscription were enough for me, goodbye.
        What happens to my monthly plan if I take a break until {month}?
        """,
        """
        You can change or end your subscription at any time under My Account. If you want us to end it, reply with yes, and nothing more will be charged.
        We can change or end your subscription for you. Reply with yes to confirm, and nothing more will be charged after this month.
        """,
    ),
    _intent(
        "how_to", True,
        """
        How do I (set up|install|connect|use|clean|reset|assemble|charge) {item}?
        (Can you|Could you) explain how to (use|set up|install|connect|clean) {item}?
        I (cannot|can't) (figure out|work out|understand) how to (connect|set up|assemble|use) {item}.
        Where (do I find|is|can I get) the (manual|instructions|user guide) for {item}?
        How do I (pair|connect) {item} with my (phone|laptop|wifi|tablet)?
        What does the (red light|blinking light|button on the side) on {item} mean?
        The instructions for {item} are (unclear|missing|only in German).
        Is there a (guide|video|manual) for {item}?
        Which (batteries|filters|bags|cables) do I need for {item}?
        How often should I (clean|charge|descale) {item}?
        I need some guidance to get {item} up and running at home.
        What are the steps for mounting the {part} of {item}?
        Could somebody walk me through the first use of {item}?
        I misplaced the booklet, how is {item} supposed to be put together?
        """,
        """
        Being no technician, I wonder how to connect {item} to the wifi at home.
        Do I have to charge {item} overnight before I use it, and how?
        The children ask how to assemble {item} without the manual.
        A short explanation of how the {part} is cleaned would help me with {item}.
        """,
        """
        Here is how to get started with {thing}. Follow the quick guide on the product page step by step, and reply here if a step is unclear.
        The guide for {thing} is on the product page under Help. Follow it step by step, and reply here if a step is unclear.
        """,
    ),
    _intent(
        "complaint", True,
        """
        I am very (unhappy|disappointed|angry|upset) with (your service|your support|the service|this shop).
        This is the (third|second|fifth) time I write and nobody (answers|helps|replies).
        Your (support|service|customer service) is (terrible|awful|a joke|the worst|useless).
        I have been waiting {days} for an answer (from you|about {item}|about {ord}).
        Nobody (picks up the phone|answers my emails|cares about my problem).
        I will never (buy|order) (here|from you) again, {item} is (a joke|rubbish|terrible).
        This is (unacceptable|ridiculous|a scandal), I want to speak to a manager.
        The (driver|agent|person on the phone) was very (rude|unfriendly).
        I want to make a complaint about {ord}.
        What a (bad|poor|terrible) experience with {item}.
        Never have I been treated as badly as by your team over {ord}.
        I demand to talk to somebody in charge, {item} has been nothing but trouble.
        My last two letters were ignored, that is no way to treat a customer.
        Absolutely dreadful customer care, I am furious.
        """,
        """
        Three hours on hold, four mails, zero answers: your service is a disgrace.
        I am so disappointed in how {ord} was handled that I shall tell all my friends.
        The lady at your counter laughed at me when I asked about {item}, that is unacceptable.
        Let me speak with a manager, my patience about {item} has run out.
        """,
        """
        I am sorry for the poor experience with {thing}. I have passed your message to a team lead, who will answer you within one working day.
        I understand that you are upset about {thing}, and I am sorry. A team lead will look into it and answer you within one working day.
        """,
    ),
    _intent(
        "praise", True,
        """
        I (just want to say|wanted to say) thank you, {item} is (great|perfect|wonderful|fantastic).
        (Great|Excellent|Fantastic|Super) service, {item} (arrived early|came very fast|works perfectly).
        I (love|really like|am very happy with) {item}, (thanks|thank you so much|keep it up).
        {item} is the best thing I (bought|ordered) this year.
        Your (support|team|agent) was (so kind|very helpful|great), thank you.
        Thanks for the quick (delivery|help|answer), (all is well now|everything works|I am happy).
        Five stars for {item} (from me|and for your team|).
        No problem at all, I only wanted to praise your team for {ord}.
        My family loves {item}, thank you.
        What a delightful purchase, {item} exceeded all my expectations.
        Compliments to everyone involved in {ord}, you did a brilliant job.
        I'm so pleased with how quickly you solved my issue, many thanks.
        Just a short note that {item} makes me smile every day.
        """,
        """
        Hats off, {item} arrived a day early and looks wonderful.
        Honestly, thank you, {item} has made my mornings so much better.
        Ana from your support was so helpful with {ord}, give her a raise, thank you.
        Perfect quality, fast shipping, great people, {item} has me happy.
        """,
        """
        Thank you for your kind words about {thing}. I will pass them on to the team, and we wish you a lot of joy with it.
        We are happy that you like {thing}. Thank you for telling us, I will pass your kind words on to the team.
        """,
        "none",
    ),
    _intent(
        "discount", True,
        """
        My (discount code|voucher|coupon|promo code) {code} does not work (for {item}|).
        The (code|voucher|coupon) {code} is (not accepted|rejected|invalid|expired).
        I forgot to (use|enter) my (discount|voucher|coupon) code on {ord}.
        Can I still get the (sale price|discount|ten percent off) for {item}?
        I bought {item} and {days} later it was (cheaper|on sale).
        Where (can|do) I enter my gift card (code|number)?
        The (discount|voucher) was not taken off the price of {item}.
        Do you have a (student discount|promo code|discount) for {item}?
        Will there be a sale on {item} in {month}?
        At checkout the coupon {code} gives an error message.
        The price of {item} dropped right after my purchase, can I have the difference?
        I possess a gift voucher but the shop would not take it for {ord}.
        The ten percent I was promised for {item} never got deducted.
        """,
        """
        The checkout ignored my voucher {code} when I paid for {item}.
        Why does {code} come up as expired, the coupon is valid until {month}?
        A discount was advertised for {item}, but I ended up paying the full amount.
        Silly me, I bought {item} without typing in the discount code {code}.
        """,
        """
        Thank you for asking about the discount for {thing}. Please send us the code, and we will take the difference off and refund it.
        We are glad to check the discount for {thing}. Reply with the code that you have, and we will refund the difference.
        """,
    ),
    _intent(
        "availability", True,
        """
        (When will|When is) {item} be (back in stock|available|in stock) again?
        Is {item} (still available|in stock|available in {city})?
        Do you (have|sell) {item} in (black|white|blue|a larger size|red)?
        The website says {item} is (sold out|out of stock|unavailable).
        Can I (pre-order|reserve) {item}?
        Do you (ship|deliver) {item} to {city}?
        Are you going to restock {item} (in {month}|soon)?
        Can you (notify me|tell me|let me know) when {item} is available again?
        Is there a (newer|smaller|bigger) version of {item}?
        I was hoping to purchase another {item} but none are left in the shop.
        Any chance that {item} returns to the catalogue before {month}?
        Does your branch in {city} carry {item} on its shelves?
        Would you put one {item} aside for me?
        """,
        """
        My brother wants {item} too, when do you get it back in stock?
        Everywhere I look {item} is sold out, is yours in stock by {month}?
        Passing by {city} tomorrow, is {item} available in that shop?
        Please drop me a message once {item} can be ordered again and is available.
        """,
        """
        Thank you for your interest in {thing}. We expect new stock within two weeks, and we will tell you as soon as it is available.
        We check the stock for {thing} every day. New stock is expected within two weeks, and we will tell you when it is there.
        """,
    ),
    _intent(
        "exchange_item", True,
        """
        (Can I|I want to|I would like to) (exchange|swap) {item} for (a different size|another colour|a bigger one|a smaller one).
        {item} is too (small|big|large|tight), (can I exchange it|please swap it|I need another size).
        {item} does not fit, (I need a larger size|can I get a smaller one|please exchange).
        The colour of {item} is not right for me, can I (swap|exchange) it?
        How do I exchange {item} for another (model|size|colour)?
        I need a different size of {item}.
        I ordered size M in {ord} but need L.
        Please swap {item} for the (black|blue|white) one.
        I'd prefer {item} in green, may I trade it for that colour?
        The size I picked in {ord} turned out too narrow, I want the next one up.
        Would an exchange of {item} against a larger one be possible?
        It doesn't fit me, please replace it with a smaller size.
        """,
        """
        On me {item} looks like a tent, so let me exchange it for a smaller size.
        Beautiful, but too tight: could {item} be exchanged for a larger size?
        Grey would suit our kitchen better, hence the wish to exchange {item}.
        I misjudged my size with {ord}, one bigger please, I will exchange it.
        """,
        """
        We can exchange {thing} for another size or colour. Please tell us which one you want, and send the first one back with the free label.
        An exchange of {thing} is free of charge. Tell us the size or colour that you want, and we will send it with a return label.
        """,
    ),
    _intent(
        "pending_transfer", False,
        """
        My transfer (is still pending|has not arrived|is not showing|has been pending for {days}).
        I (sent|transferred) {amount} {days} ago and the (money|transfer) (has not arrived|is still pending).
        (Why is|How long is) my (transfer|bank transfer) still pending?
        How long does a (transfer|bank transfer|payment to Europe) take?
        The (recipient|receiver|other person) did not (get|receive) my transfer (yet|of {amount}).
        When will the (money I sent|transfer) arrive?
        My (payment|card payment) of {amount} is still (pending|not completed).
        I made a transfer to a friend but the (balance|balance of the account) has not (changed|been updated).
        Why has the cheque or cash I deposited not (shown up|updated my balance)?
        The transfer to {iban} (is pending|has not arrived|is missing).
        I wired {amount} to my landlord and he says that nothing reached him.
        Why does my bank transfer take so many days to go through?
        The money I moved from another bank has yet to be credited.
        Is it normal that a transfer remains pending since {month}?
        """,
        """
        The rent I transferred on Monday is marked pending even today.
        For {days} a transfer of {amount} has been shown as pending, is it lost?
        My sister is waiting for the transfer I sent her from the app, why the delay?
        Usually a transfer is there overnight, this one has not arrived.
        """,
        """
        A transfer can stay pending for up to two working days. If it has not arrived by then, we will trace it with the other bank.
        Your transfer is most likely still on its way, which can take two working days. After that we will trace it with the other bank.
        """,
    ),
    _intent(
        "top_up_failed", False,
        """
        My top-up (failed|did not work|was declined|was cancelled|has not arrived).
        I (tried to|wanted to) top up my (account|card|balance) and it (failed|was rejected|did not work).
        Why (was|did) my top up (reverted|rejected|fail|not go through)?
        I topped up {amount} but the (money|balance) is not (there|showing|updated).
        The (top up|top-up) by (card|bank transfer|cheque) is still pending.
        How (can|do) I top up (my account|with a card|by bank transfer|using Apple Pay)?
        The app does not let me (add money|top up).
        My top up went through twice but my balance is the same.
        Is there a (limit|fee|charge) for topping up?
        Adding funds to my balance ended in an error message.
        I loaded {amount} onto the card, yet the app shows zero.
        For some reason topping up got reversed, what went wrong?
        Can you see why the funds I put in do not appear?
        """,
        """
        Each attempt to top up with my debit card ends with the word failed.
        Tonight's top-up of {amount} bounced, and the app gives no reason.
        Did my top up vanish? My balance has not moved an inch.
        Whenever I try a top up from my savings, it is rejected.
        """,
        """
        I am sorry that the top-up did not work. Please check the card details and the limit in the app and try once more, any failed amount goes back by itself.
        A failed top-up goes back to your card by itself. Please check the card details and the limit in the app, and try once more.
        """,
    ),
    _intent(
        "lost_card", False,
        """
        I (lost|have lost|cannot find|can't find) my (card|bank card|credit card|debit card).
        My (card|wallet|purse) (was stolen|has been stolen|got stolen|is gone).
        Please (block|freeze|stop) my card (at once|right now|{card}|).
        (Somebody|Someone) (stole|took) my (card|wallet|bag) (in {city}|on the train|).
        I think I left my card in (a shop|a taxi|{city}), please block it.
        What (do|should) I do if my card is (lost|stolen|missing)?
        How (can|do) I (freeze|block|report) a lost card?
        My phone with the banking app was (lost|stolen), what do I do?
        I need a replacement for my lost card {card}.
        A thief grabbed my purse with the bank card inside, act fast please.
        My debit card has vanished, I have not seen it since yesterday.
        I found out that my card is no longer in my pocket, stop all payments.
        Can you deactivate my stolen card immediately?
        """,
        """
        Coming home from the market I noticed that I had lost my card.
        Pickpockets in {city} left me without a wallet, so my card is stolen.
        The card slipped out of my coat, I think it is lost for good, freeze it.
        Emergency, my purse was stolen with the card, what now?
        """,
        """
        Please freeze the card in the app now, so that nobody can use it. We will send a new card, which takes about five working days.
        We take a lost card seriously. Please freeze it in the app at once, and we will send a new card within five working days.
        """,
    ),
    _intent(
        "exchange_rate", False,
        """
        What (exchange rate|rate) do (you use|I get) (for euros|for dollars|abroad|when I pay in {city})?
        The exchange rate (was wrong|is wrong|looks bad|was not what I expected) (for my payment|when I withdrew cash|).
        I was charged the wrong exchange rate (on holiday|for a cash withdrawal|in {city}).
        Can I (exchange|hold|change) (money|currencies|dollars and euros) in the app?
        Which currencies (do you support|can I hold|can I exchange)?
        Why is the rate different from (the official one|Google|the interbank rate)?
        How do you (decide|set|calculate) the exchange rate?
        Is there a fee for (exchanging|paying in) foreign (money|currencies)?
        Paying in a foreign currency cost me more than the rate in the news.
        Where can I look up your conversion rates for pounds into euros?
        How good is the rate if I convert {amount} to dollars?
        The currency conversion on my trip to {city} seems far too high.
        """,
        """
        Our hotel in {city} came out pricier than planned, was your exchange rate that poor?
        Before I fly to {city}, tell me which exchange rate applies to card payments.
        Between the official exchange rate and yours lies a gap of three percent, why?
        Do weekends change the exchange rate for euros and dollars?
        """,
        """
        We use the rate of the card network at the moment of the payment. You can see the rate and any fee in the app under the payment.
        The exchange rate is set by the card network when you pay. The app shows the rate and any fee under each payment.
        """,
    ),
    _intent(
        "card_arrival", False,
        """
        My (new card|card|bank card) has not (arrived|come) (yet|after {days}).
        I (ordered|requested) a card {days} ago and it is not here.
        When will my (new |)(card|credit card|debit card) (arrive|come|get here|be delivered)?
        How long does it take (to get a card|until my card arrives|for the card to come)?
        I am still waiting on my card.
        Can I (track|follow) the (delivery|post) of my (card|new card)?
        How (do|can) I (activate|link) my (card|new card) in the app?
        My card came, how do I activate it?
        Can I get (a second|an extra|a virtual) card?
        It is {days} since I applied for the card and my letterbox is empty.
        Is there a tracking number for the bank card you mailed me?
        What's the usual waiting time for a fresh debit card?
        The plastic arrived today, what do I do to switch my card on?
        """,
        """
        The postman brought everything except my new card, which should have arrived long ago.
        Any idea when the card I ordered through the app will arrive?
        Two letters from you but no card inside, when does it come?
        With my new card in hand, I wonder how to activate it.
        """,
        """
        A new card takes five to eight working days by post. When it is here you can activate it in the app under Cards.
        Cards are sent by post and take five to eight working days. If yours is later, order a free new one in the app under Cards.
        """,
    ),
    _intent(
        "card_declined", False,
        """
        My card (was declined|got declined|was rejected|is not working|does not work).
        (Why was|Why is) my (payment|card payment|card) (declined|rejected|refused)?
        I tried to pay in a (shop|restaurant|supermarket) and the card (was declined|did not work).
        The (contactless|chip|virtual card) does not work.
        My (online payment|transfer|cash withdrawal) was (declined|cancelled|refused) although I have enough money.
        The (machine|ATM|shop) does not (accept|take|read) my card.
        My payment of {amount} was refused in {city}.
        The transfer was declined, (why|what can I do|please help).
        I cannot pay with my card (abroad|online|any more).
        The cashier said that my card would not go through, quite embarrassing.
        Why does every purchase on the internet get refused with this card?
        At the terminal in {city} I only saw the word declined.
        My plastic seems to be blocked, no reader takes it.
        """,
        """
        Dinner in {city} got awkward as my card was declined in front of everyone.
        Buying a train ticket failed because the card got declined, though there is money on it.
        Three shops today, three times declined, what is wrong with this card?
        The petrol pump rejects my card whenever I try to pay.
        """,
        """
        I am sorry that the card was declined. Please check in the app that it is active, that the limit is high enough, and try the chip with the PIN.
        A card is mostly declined because of a limit or a wrong PIN. Please check the card and its limits in the app and try again.
        """,
    ),
    _intent(
        "cash_withdrawal", False,
        """
        The (ATM|cash machine) (kept|swallowed|ate|took) my card.
        I (withdrew|took out) {amount} but the machine gave me (less|the wrong amount|nothing).
        The (ATM|cash machine) did not give me (the money|all my money|cash) but my account was (charged|debited).
        There is a cash withdrawal of {amount} that I (did not make|do not know).
        My cash withdrawal is still pending.
        Why was I charged a fee for (a cash withdrawal|withdrawing money|using an ATM)?
        Where can I (withdraw|get) (cash|money) (in {city}|with my card)?
        How much (cash|money) can I withdraw (per day|a day)?
        No banknotes came out of the ATM in {city}, yet {amount} is gone from my balance.
        The machine at the station did not return my card.
        Only half of the cash I asked for was paid out at the ATM.
        Did I really have to pay for getting cash from a machine abroad?
        """,
        """
        The ATM beside the town hall in {city} swallowed my card and went dark.
        I typed {amount}, the ATM rattled and gave me no cash at all.
        Withdrawing cash on holiday was expensive, does every ATM have a fee?
        My account was debited for cash that the machine in {city} never handed out.
        """,
        """
        I am sorry about the trouble at the cash machine. Please send us the place, time and amount, and we will check it with the owner of the machine.
        We will check the cash withdrawal for you. Please send us the place, time and amount, and freeze the card if the machine kept it.
        """,
    ),
    _intent(
        "unknown_payment", False,
        """
        There is a (payment|charge|transaction) of {amount} (I do not recognise|that I did not make|I know nothing about).
        I (do not recognise|don't know|never made) a (payment|charge|direct debit) on my (statement|account|card).
        Somebody (used my card|paid with my card|made payments with my card) without asking me.
        My card {card} was used (by someone else|in {city} and I was not there|for something I did not buy).
        I think (my card was hacked|my account was hacked|this is fraud|I was scammed).
        A direct debit of {amount} was taken that I (did not allow|never set up|do not know).
        What is this (charge|payment|fee) of {amount} on my (account|card|statement)?
        I got a strange (email|text|call) asking for my card number, is it from you?
        My account shows an extra charge that is not mine.
        Who took {amount} from me? The name on the statement says nothing to me.
        I spotted a purchase in {city} which definitely wasn't mine.
        Fraudsters seem to have got hold of my card details.
        A debit went off that I never authorised, please look into it.
        """,
        """
        Reading my statement I stumbled over a payment of {amount} to a shop I do not know.
        At four in the morning somebody used my card in {city}, while I was asleep.
        I do not recognise the last transaction on my card and fear it is fraud.
        A company with an odd name charged me {amount}, I did not buy anything there.
        """,
        """
        Please freeze the card in the app first. We have opened a fraud check for this payment, and you will get an answer within two working days.
        Thank you for telling us about this payment. Please freeze the card, our fraud team checks it and answers within two working days.
        """,
    ),
    _intent(
        "verify_identity", False,
        """
        (Why do|How do) I (need to verify|verify|prove) my identity?
        I (cannot|can't|was not able to) verify my (identity|account|passport|ID).
        My (identity check|verification|ID photo) (failed|was rejected|is taking long).
        What documents do (you need|I need) (for the identity check|to verify my account)?
        The app does not accept my (passport|ID card|selfie|photo).
        My social security number is {ssn}, why is my account not verified?
        How long does (the verification|the identity check|it take to verify my account) take?
        I do not want to (send|upload) my passport, is it (needed|required)?
        The picture of my passport keeps getting refused by your app.
        Which papers must I hand in so that you know who I am?
        I uploaded my ID {days} ago but I am still not verified.
        What's the purpose of proving my identity with a selfie?
        """,
        """
        Your app rejects each photo of my passport, so verifying my identity is hopeless.
        Is a driving licence good enough to verify my identity?
        Days after sending my passport, my identity is not verified.
        Before I verify my identity, tell me what you do with the documents.
        """,
        """
        We have to verify who you are by law. Please upload a clear photo of your passport or ID card in the app, the check takes one working day.
        Please upload a clear photo of your passport or ID card in the app, all corners in view. The identity check takes one working day.
        """,
    ),
    _intent(
        "change_pin", False,
        """
        How (do|can) I change my PIN?
        I (forgot|do not know|can't remember) my PIN (for the card|).
        My PIN is (blocked|not working|locked) after (three|too many) tries.
        Where (do|can) I (see|find|change) the PIN of my card?
        I have not (got|received) my PIN (yet|for the new card).
        Can I (change|set) my PIN at (an ATM|a cash machine|any ATM)?
        Please unblock my PIN.
        I entered the wrong PIN (three times|too often), what now?
        What must I do to pick another four-digit PIN?
        The PIN has slipped my mind, is there a way to view it?
        Three wrong attempts and now my PIN won't be accepted.
        Did you send the PIN in a separate letter? I got none.
        """,
        """
        After the holiday I no longer know my PIN, can the app show it?
        A friend saw me type my PIN, so I had better change it.
        The keypad says PIN blocked since this morning, how is it unblocked?
        Is a PIN change possible without visiting a cash machine?
        """,
        """
        You can see your PIN in the app under Cards and unblock it there. To change it, use any cash machine and choose PIN services.
        Your PIN is shown in the app under Cards, where you can also unblock it. You can change it at any cash machine.
        """,
    ),
    _intent(
        "close_account", False,
        """
        I (want|would like|need) to (close|delete) my account.
        (Please|Can you) (close|delete) my account (and my data|at once|).
        How (do|can) I (close|delete|remove) my account?
        I am (leaving|not happy with) your (bank|company|shop), delete my (account|profile|data).
        Please (delete|remove|erase) all my (personal data|data|information).
        I do not need (this|my) account any more, please close it.
        Which data do you (keep|store) about me?
        My profile should be wiped completely, including every record you hold.
        Shut down the account in my name please, I moved to another bank.
        I'm no longer interested in being a customer, get rid of my account.
        According to privacy law I ask you to erase what you have stored on me.
        """,
        """
        Time to say goodbye, kindly close my account by the end of the week.
        I opened the account for a trip only, now it can be closed.
        Delete all of my data from your computers, the account included.
        Closing my account seems impossible in the app, would you do it for me?
        """,
        """
        We are sorry to see you go. You can close your account in the settings, and your data is deleted 30 days later.
        You can close your account in the settings under Privacy. Your data is deleted 30 days after that.
        """,
    ),
    _intent(
        "change_details", False,
        """
        I (changed|have changed|got married and changed) my (name|last name), please update (it|my account).
        How (do|can) I (change|update|edit) my (phone number|email address|personal details|name)?
        My (phone number|email address) (changed|is new|is wrong), the new one is {contact}.
        Please (use|save) my new (number|email) {contact}.
        I have a new (phone|phone number|email address).
        My (name|date of birth|email) is (wrong|misspelled) in my account.
        I want to change the (email|phone number) of my account.
        Please stop sending me (the newsletter|emails|ads).
        Since my wedding I go by a different surname, can you adjust my profile?
        My contact details are outdated, from now on use {contact}.
        There's a spelling error in the way you write my name.
        Where may I edit the mobile number linked to my profile?
        """,
        """
        You still use my maiden name, please update the account to my married name.
        My old phone number belongs to somebody else now, how do I change it in the account?
        Reach me with {contact} in future, the email address you know is dead.
        My first name has two n, the account shows it with one, kindly correct my name.
        """,
        """
        You can change your name, phone number and email in the settings under My Details. A change of name also needs a photo of your ID.
        Your details can be changed in the settings under My Details. If you changed your name, we also need a photo of your ID.
        """,
    ),
    _intent(
        "fees_limits", False,
        """
        (Why was|Why am) I charged a fee (of {amount}|for my transfer|for paying by card|)?
        What (are the|are your) fees for (transfers|cards|the account)?
        Is there a (fee|charge|limit) for (transfers|payments|sending money abroad)?
        What is the (limit|maximum|daily limit) for (transfers|payments|my card)?
        Can I (raise|increase|change) my (limit|card limit|daily limit)?
        How much does (the account|the card|a transfer abroad) cost?
        There is an extra fee of {amount} on my statement.
        I (reached|hit) my limit, (can you raise it|what now).
        Nobody told me that sending money costs {amount} on top.
        Where is the price list for your account and card?
        I wish to spend more than my daily maximum, who can lift it?
        What's with the additional cost on my latest statement?
        """,
        """
        A fee of {amount} appeared out of the blue, what is it for?
        Buying a used car needs a higher transfer limit, can that be arranged?
        Please list the fees for sending money to another country.
        Does the card have a daily limit, and how high is it?
        """,
        """
        All fees and limits are listed in the app under Account. You can raise a limit there, and we refund any fee that was taken by mistake.
        You find every fee and limit in the app under Account. If a fee was taken by mistake, we will refund it.
        """,
    ),
    _intent(
        "wrong_transfer", False,
        """
        I (sent|transferred) {amount} to the wrong (person|account|IBAN).
        I made a (mistake|typo) in the IBAN, please (stop|cancel|reverse) the transfer.
        (Can I|How do I|Is it possible to) (cancel|stop|reverse|undo) a (transfer|payment)?
        I need to cancel a transfer I made (today|by mistake|{days} ago).
        The (recipient|account number|IBAN) {iban} was wrong, I want my money back.
        Please cancel my transfer of {amount}.
        I paid the wrong (account|company) by accident.
        One digit of the account number was off and now {amount} is with a stranger.
        Please recall the payment I made to {iban}, it was a slip.
        Money went to somebody I don't know because I mistyped the IBAN.
        Is there any way of getting back a transfer sent in error?
        """,
        """
        My thumb hit the wrong name and {amount} was sent to my former boss, cancel the transfer.
        Help, I entered the wrong IBAN, the transfer went out a minute ago!
        Could the bank pull back what I sent to {iban}, that account is wrong.
        The wrong person received {amount} by my mistake, can this be reversed?
        """,
        """
        A transfer can be cancelled in the app as long as it is pending. If it has gone through, we will ask the other bank to send it back.
        Please open the transfer in the app and choose Cancel. If it has gone through already, we will ask the other bank to return it.
        """,
    ),
    _intent(
        "generic", False,
        """
        I have a question about (my account|your company|your shop|something).
        (Hello|Hi), (is anybody there|can someone help me|I need help).
        (Can I|May I) speak to a (human|person|real person|agent)?
        What are your opening hours (in {city}|on Sunday|)?
        Do you have a (shop|branch|store|phone number) in {city}?
        (I have a problem with|Something is wrong with) (the app|the website|my account).
        The (app|website|page) (crashes|is slow|does not load|shows an error) (all the time|since {month}|).
        Are you (hiring|looking for staff)? I want to apply for a job.
        (Please call me back|Please get in touch|Please contact me).
        Do you (support|accept) (Apple Pay|Google Pay|PayPal|American Express)?
        How old do I have to be to (open|have) an account?
        In which countries (are you|is your service) available?
        I saw an error from the address {ip} in (the app|my log).
        My (cat|dog|printer|neighbour) is (strange|too loud|blue) today.
        Could you point me to somebody who knows about business customers?
        I'd like a word with one of your staff, it is complicated.
        The page stays white whenever I open it on my tablet.
        Is your office in {city} open during the holidays?
        """,
        """
        Somebody from your company visited our school, whom may I thank or contact?
        I wonder whether a colleague of yours could phone me on Thursday.
        Your website shows me an error page in a language I do not speak.
        I am writing a school paper about your company and have a few questions.
        """,
        """
        Thank you for your message. A colleague will look at it and answer you within one working day.
        Thank you for writing to us. I have passed your question to a colleague, who will answer within one working day.
        """,
    ),
)

OPENINGS_TRAIN = (
    "Hello,", "Hi,", "Hi there,", "Dear support,", "Good morning,", "Hello team,", "Dear Sir or Madam,",
    "Hey,", "Good evening.", "Hi, {name} here.", "My name is {name}.", "This is {name}.", "Hello, I am {name}.",
    "Please help!", "I need help.", "URGENT:", "Hello again.", "I have a question.", "Quick question:", "So,",
)
OPENINGS_HELD_OUT = (
    "Greetings,", "Good afternoon,", "To whom it may concern,", "Hey folks,", "It's {name} writing.",
    "A brief request:", "Dear all,", "Excuse me,",
)
DETAILS_TRAIN = (
    "I paid {amount}.", "It was a gift.", "I live in {city}.", "I bought it in {month}.", "This is the second time.",
    "I already called you.", "I am a customer for years.", "I tried everything.", "The order is {ord}.",
    "The order number is {order}.", "It is about {item}.", "My order number: {order}.", "I use it every day.",
    "I paid with card {card}.", "My IBAN is {iban}.", "I tried it from {ip}.", "It is for my daughter.",
    "I have checked the website.", "My husband says it is normal.", "I am in {city} until Friday.", "I have the receipt.",
    "I ordered it on your website.", "I cannot find an answer on your site.", "See order {order}.",
    "My social security number is {ssn} if you need it.", "There was nothing in my mailbox.",
)
DETAILS_HELD_OUT = (
    "The total came to {amount}.", "It was meant as a birthday present.", "We are located in {city}.",
    "The reference is {order}.", "I'm talking about {item}.", "Payment was made with {card}.",
    "I've been loyal to you since {month}.", "My account number is {iban}.", "I asked a friend, who did not know either.",
    "My computer has the address {ip}.",
)
CONTACTS_TRAIN = (
    "Please write to {contact}.", "My email is {email}.", "You can reach me at {contact}.", "Call me on {phone}.",
    "My number is {phone}.", "Please answer to {email}.", "Contact: {contact}", "My account is {email}.",
    "Please call {phone} after 5 pm.", "Write me at {email} please.", "I am {email} in your shop.", "{contact}",
    "Email: {email}, phone: {phone}.",
)
CONTACTS_HELD_OUT = (
    "Best to get hold of me under {contact}.", "Drop me a line at {email}.", "Ring me at {phone}.",
    "I registered with {email}.", "For questions use {contact}.",
)
CLOSINGS_TRAIN = (
    "Thanks.", "Thank you.", "Please help.", "Regards, {name}", "Best regards, {name}", "Thanks, {name}", "Can you help?",
    "What can I do?", "Please answer soon.", "Thanks in advance.", "Kind regards", "{name}", "Please fix this.",
    "What now?", "I hope you can help me.", "Best, {name}", "Waiting for your answer.", "Thank you very much!",
)
CLOSINGS_HELD_OUT = (
    "Cheers, {name}", "Many thanks in advance for your support.", "Sincerely, {name}", "Looking forward to your reply.",
    "Please sort it out.", "Yours, {name}",
)

ITEM_PHRASES = ("my {product}", "the {product}", "my new {product}", "the {product} I ordered", "this {product}")
ITEM_PHRASES_BARE = ("my order", "the item", "my parcel", "it", "the product", "what I ordered", "this thing")
ORDER_PHRASES = ("order {order}", "my order {order}", "order number {order}", "order no. {order}", "{order}")
ORDER_PHRASES_BARE = ("my order", "the order", "my last order", "this order")

THING_BOTH = ("your {product} from order {order}", "your {product} (order {order})")
THING_PRODUCT = ("your {product}",)
THING_ORDER = ("your order {order}",)
THING_NONE = ("your order",)

CONTACT_ANSWERS = {
    ("update", "email"): "We will write to {email} with all news.",
    ("update", "phone"): "We will call you on {phone} with all news.",
    ("reset", "email"): "We have sent a reset link to {email}.",
    ("reset", "phone"): "We will call you on {phone} to unlock it.",
}
